#include "process/taker.hpp"

#include <sstream>

namespace rowlock::test {
namespace {

std::vector<std::string> arguments(std::string const& url, std::string const& schema, std::string const& name,
                                   std::chrono::milliseconds ttl, strategy how, bool own_pid_namespace) {
  std::vector<std::string> all{ROWLOCK_LOCK_TAKER};
  if (own_pid_namespace) all.emplace_back("--own-pid-namespace");
  all.insert(all.end(), {url, schema, name, std::to_string(ttl.count()), std::string(to_string(how))});
  return all;
}

}  // namespace

taker::taker(fixture const& f, std::string const& name, std::chrono::milliseconds ttl, bool own_pid_namespace)
    : child_process(arguments(f.url(), f.options.schema, name, ttl, f.options.strategy, own_pid_namespace)) {}

taker::taker(std::string const& url, std::string const& schema, std::string const& name,
             std::chrono::milliseconds ttl)
    : child_process(arguments(url, schema, name, ttl, strategy::lease, false)) {}

std::string taker::ask(std::string const& command, std::chrono::milliseconds patience) {
  write_line(command);
  return next_line(patience).value_or("no answer");
}

std::optional<taken> taker::take(std::chrono::milliseconds wait) {
  std::istringstream answer(ask("take " + std::to_string(wait.count()), wait + 60s));
  std::string verb;
  taken t;
  answer >> verb >> t.term >> t.token >> t.host >> t.pid >> t.process;
  if (verb != "taken") return std::nullopt;
  return t;
}

}  // namespace rowlock::test

#include "support/pgbouncer.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <stdexcept>
#include <vector>

namespace rowlock::test {
namespace {

// The last one counts, as for libpq.
std::string word_of(std::string const& conninfo, std::string const& keyword) {
  std::regex const one(keyword + " *= *'?([^ ']*)");
  std::string word;
  for (std::sregex_iterator at(conninfo.begin(), conninfo.end(), one), end; at != end; ++at)
    word = at->str(1);
  return word;
}

}  // namespace

pgbouncer::pgbouncer(std::string const& server, std::string const& mode, std::string const& settings) {
  auto const user = word_of(server, "user");
  auto const password = word_of(server, "password");
  // A free port, or another is tried: PgBouncer ends at once if somebody has it.
  for (int number = 6400 + ::getpid() % 2000; !process_; ++number) {
    if (number > 9000) throw std::runtime_error("no port for PgBouncer");
    // What it logs of each connection nobody reads, and the pipe would be full one day.
    std::ofstream(folder_.file("ini")) << fmt::format(
        "[databases]\n* = host=127.0.0.1 port={} user={}{}{}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        "listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = {}\nmax_client_conn = 500\n"
        "log_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\nlog_stats = 0\n{}\n",
        word_of(server, "port"), user, password.empty() ? "" : " password=", password, number, mode,
        settings);
    std::vector<std::string> command{"/bin/sh", "-c", "exec 2>&1; exec \"$@\"", "sh"};
    // It refuses to be root's.
    if (::geteuid() == 0) command.insert(command.end(), {"setpriv", "--reuid=nobody", "--clear-groups"});
    ::chmod(folder_.path().c_str(), 0755);
    command.insert(command.end(), {"pgbouncer", folder_.file("ini")});
    process_.emplace(command);
    address_ =
        fmt::format("host=127.0.0.1 port={} dbname={} user={}", number, word_of(server, "dbname"), user);
    if (!process_->read_until("process up")) process_.reset();
  }
}

}  // namespace rowlock::test

#include "commands/term.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "exit_status.hpp"
#include "holder.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds between_tries = 100ms;
constexpr std::chrono::milliseconds without_a_word = 2s;

bool may_pass(error const& e) {
  return e.retryable() || e.reason() == errc::read_only || e.reason() == errc::storage_full;
}

/// A mistake that would else look like a lost lock.
void require_term(std::string const& term) {
  bool const good = term.size() == 32 && std::all_of(term.begin(), term.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  if (!good)
    throw failure(exit_usage,
                  fmt::format("--term: '{}' is not a term; `rowlock take` prints it: ROWLOCK_TERM", term));
}

std::string who_has_it(lock_manager& manager, named_term const& which) {
  auto const now = manager.find(which.name);
  if (!now || !now->held) return "it has no holder now";
  if (now->holder.revoked) return "an operator asked for it back (rowlock release --force)";
  return "it is held by " + describe(now->holder);
}

}  // namespace

end_of_program by_term(invocation& call, named_term const& which, char const* done,
                       std::function<bool(lock_manager&, detached_lock const&)> const& act) {
  require_term(which.term);
  auto const& db = call.use_database();
  manager_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  o.connections = 1;
  lock_manager manager(db.url, o);
  manager.connect();
  bool const was_ours = act(manager, {which.name, {which.term}, {}, {}});
  if (call.json) {
    nlohmann::ordered_json const out{{"name", which.name}, {"term", which.term}, {done, was_ours}};
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  if (was_ours) return {};
  say(fmt::format("'{}' was lost before it was {}: {}", which.name, done, who_has_it(manager, which)));
  return {exit_lost, {}};
}

std::optional<std::string> give_back_late(lock_manager& manager, detached_lock const& lock,
                                          boot_time_point until, int signals) {
  auto const since = boot_clock::now();
  for (bool told = false;;) {
    std::string why;
    try {
      (void)manager.release(lock);
      return {};
    } catch (error const& e) {
      why = message_of(e, {});
      if (!may_pass(e) || boot_clock::now() + between_tries >= until) return why;
    }
    if (!told && boot_clock::now() - since > without_a_word) {
      say(fmt::format("'{}' could not be given back yet: {}; this is tried again until its time is over",
                      printable(lock.name), why));
      told = true;
    }
    pollfd wake{signals, POLLIN, 0};
    if (::poll(&wake, 1, static_cast<int>(between_tries.count())) > 0) return why;
  }
}

}  // namespace rowlock::tool

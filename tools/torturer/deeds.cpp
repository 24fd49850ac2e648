#include "deeds.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <rowlock/rowlock.hpp>
#include <thread>
#include <vector>

#include "by_hand.hpp"
#include "printable.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

constexpr char const* prefix = "torture_";

/// The oldest version of the tables with which programs go on.
constexpr int oldest_that_serves = 1;

manager_options ours() {
  manager_options mo;
  mo.table_prefix = prefix;
  return mo;
}

/// One reaper after the other. An error that says that others were in the way is none.
void reap_again_and_again(connection_source const& s, std::chrono::milliseconds idle) {
  lock_manager m(s, ours());
  for (;;) try {
      // As an operator who does not want to wait for another run. So they do run at the same time.
      (void)m.revoke("rowlock.reaper", revoke_mode::now);
      reaper r(s, {.table_prefix = prefix, .idle = idle, .batch = 2, .watch = 0ms, .wait = 0ms});
      (void)r.run();
    } catch (error const& e) {
      if (!e.retryable()) on_stderr(fmt::format("a reaper: {}\n", printable(e.what())));
      std::this_thread::sleep_for(10ms);  // a database that is busy is not asked more often
    }
}

}  // namespace

void reap(connection_source const& s) {
  std::vector<std::jthread> all;
  for (auto const idle : {0ms, 0ms, 5ms, 100ms})
    all.emplace_back([&s, idle] { reap_again_and_again(s, idle); });
  for (;;) std::this_thread::sleep_for(1h);  // until it is killed
}

void migrate(connection_source const& s, bool down) {
  migrator m(s, {.table_prefix = prefix});
  if (down) m.down(oldest_that_serves, true);
  m.up();
  for (auto const& problem : m.validate()) on_stderr(fmt::format("the tables: {}\n", printable(problem)));
}

void take_away(std::string const& db, std::string const& name, bool by_hand) {
  if (by_hand) return delete_row(db, name);
  lock_manager m(source_from_url(db), ours());
  (void)m.revoke(name, revoke_mode::now);
}

}  // namespace rowlock::torture

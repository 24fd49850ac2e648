// Database clocks that were an hour ahead and went back (C5), by moving real servers' clocks.
#include <thread>

#include "process/taker.hpp"
#include "support/look_at_tables.hpp"
#include "support/moved_clock.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::chrono::milliseconds ttl = 3s;
// Twice the longest term and 2 %, and what a busy machine needs.
constexpr auto free_after = 2 * 3060ms + 30s;
// Longer than a dead holder's term would be watched for.
constexpr std::chrono::milliseconds long_enough = 5s;

manager_options with(strategy how) {
  manager_options o;
  o.strategy = how;
  return o;
}

/// A process that has taken `name`; killed at the end. `before`: what its command line begins with.
class holder {
 public:
  holder(std::string const& url, std::string const& name, strategy how, std::vector<std::string> before = {})
      : process_(command(std::move(before), url, name, how)) {
    auto const answer = ask("take 0");
    CAPTURE(answer);
    REQUIRE(answer.starts_with("taken "));
  }
  /// Another process that waits for the name for long enough.
  static std::string rival(std::string const& url, std::string const& name, strategy how) {
    return holder(url, name, how, waits{}).ask("take " + std::to_string(long_enough.count()));
  }
  void kill() {
    process_.kill();
    process_.finish();
  }

 private:
  static std::vector<std::string> command(std::vector<std::string> before, std::string const& url,
                                          std::string const& name, strategy how) {
    for (auto const& part :
         {std::string(ROWLOCK_LOCK_TAKER), url, std::string(), name,
          std::to_string(std::chrono::milliseconds(ttl).count()), std::string(to_string(how))})
      before.push_back(part);
    return before;
  }
  struct waits {};
  holder(std::string const& url, std::string const& name, strategy how, waits)
      : process_(command({}, url, name, how)) {}
  std::string ask(std::string const& line) {
    process_.write_line(line);
    return process_.next_line(60s).value_or("no answer");
  }

  child_process process_;
};

void check_free_in_time(lock_manager& m, std::string const& name) {
  auto const start = boot_clock::now();
  auto const lock = m.make_mutex(name).try_acquire_for(60s);
  REQUIRE(lock);
  CHECK(boot_clock::now() - start < free_after);
}

}  // namespace

TEST_CASE_TEMPLATE("K7, C5: a server's clock was an hour ahead and went back", kind,
                   std::integral_constant<server_kind, server_kind::postgresql>,
                   std::integral_constant<server_kind, server_kind::mariadb>,
                   std::integral_constant<server_kind, server_kind::mysql>) {
  database_server server(kind::value, {.movable_clock = true});
  auto const source = source_from_url(server.address());
  migrator(source).up();
  auto const sql = [&](std::string const& text) {
    auto const c = source.implementation()->connect(boot_clock::now() + 60s);
    look_at_tables(*c);
    c->script(text, boot_clock::now() + 60s);
  };
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    CAPTURE(to_string(how));
    lock_manager mine(server.address(), with(how));
    lock_manager other(server.address(), with(how));
    std::string const of = to_string(how);

    server.set_clock(3600s);
    holder dead(server.address(), of + " dead", how);
    holder forgotten(server.address(), of + " forgotten", how);
    holder of_old_program(server.address(), of + " old", how);
    holder living(server.address(), of + " living", how);
    auto extended = mine.make_mutex(of + " extended", {.ttl = ttl, .renew = false}).acquire();
    REQUIRE(extended->extend(60s));
    auto at_least = mine.make_mutex(of + " at_least", {.ttl = ttl, .at_least = 500ms}).acquire();
    dead.kill();
    forgotten.kill();
    of_old_program.kill();
    sql("UPDATE rowlock_locks SET longest = NULL, longest_term = NULL WHERE name = '" + of + " old'");
    if (how == strategy::lease)
      sql(kind::value == server_kind::postgresql ? "SELECT rowlock_try_acquire('by SQL', '3 s')"
                                                 : "CALL rowlock_try_acquire('by SQL', 3000, '', @t, @n)");
    server.set_clock(0s);

    check_free_in_time(other, of + " dead");
    if (how == strategy::lease) check_free_in_time(other, "by SQL");
    CHECK(at_least->release() == release_result::released);
    check_free_in_time(other, of + " at_least");

    auto const reaped = reaper(source, {.watch = 10s}).run();
    CHECK(reaped.ended == 1);  // "forgotten": the others live, or nobody knows how long they last
    CHECK(other.make_mutex(of + " forgotten").try_acquire());

    CHECK(holder::rival(server.address(), of + " extended", how) == "timed out");
    CHECK_FALSE(other.make_mutex(of + " living").try_acquire_for(long_enough));
    CHECK_FALSE(other.make_mutex(of + " old").try_acquire_for(long_enough));
    CHECK(extended->valid());
    CHECK(extended->release() == release_result::released);
    sql("DELETE FROM rowlock_locks");
  }
}

// The clock is that of each process.
TEST_CASE("K7, C5: the holder's clock was an hour ahead: sqlite") {
  scratch_folder const folder;
  auto const ahead = with_moved_clock(folder.file("clock"));
  move_clock(folder.file("clock"), 3600s);
  sqlite_fixture f;
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    std::string const of = to_string(how);
    lock_manager other(f.url(), with(how));
    holder dead(f.url(), of + " dead", how, ahead);
    holder living(f.url(), of + " living", how, ahead);
    dead.kill();
    check_free_in_time(other, of + " dead");
    CHECK_FALSE(other.make_mutex(of + " living").try_acquire_for(long_enough));
  }
}

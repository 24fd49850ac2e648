// Several locks at once, all or none of them: lib/doc/all_at_once.md.

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <thread>

#include "base/random_id.hpp"
#include "contract/no_memory.hpp"
#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using names = std::vector<std::string>;

constexpr bool leases_on_servers(running_pair const& p) { return leases(p) && on_a_server(p); }
constexpr bool others(running_pair const& p) { return !leases(p); }
#define SERVER_LEASE_CASE(text) PAIRS_CASE(text, leases_on_servers)

mutex_options each() { return {.owner = each_acquire{}}; }

/// Another process, statement by statement.
struct process {
  explicit process(fixture& f)
      : book(f.source.implementation()->sql(), f.tables()), strategies_(book), session(f.connect()) {}

  strategies::outcome_for_all take(names const& wanted) {
    std::vector<strategies::wanted_lock> list;
    for (auto const& n : wanted) list.push_back({n, {base::random_id()}});
    return take(list);
  }
  strategies::outcome_for_all take(std::vector<strategies::wanted_lock> const& list) {
    strategies::take_request how;
    how.owner = {"elsewhere", 1, "process", 1};
    how.ttl = 30s;
    mine.clear();
    for (auto const& each : list) mine.push_back({each.name, each.term});
    boot_time_point sent_at;
    return leases().take_all(*session, how, list, boot_clock::now() + 30s, sent_at);
  }
  /// These, of which the last replaces that.
  bool replaces(names const& wanted, strategies::superseded const& old) {
    std::vector<strategies::wanted_lock> list;
    for (auto const& n : wanted) list.push_back({n, {base::random_id()}});
    list.back().old = old;
    return std::holds_alternative<strategies::all_granted>(take(list));
  }
  /// @return what it got: each is for itself
  names take_each(names const& wanted) {
    strategies::take_request how;
    how.owner = {"elsewhere", 1, "process", 1};
    how.ttl = 30s;
    std::vector<strategies::wanted_lock> list;
    for (auto const& n : wanted) list.push_back({n, {base::random_id()}});
    boot_time_point sent_at;
    auto const won = leases().take_each(*session, how, list, boot_clock::now() + 30s, sent_at);
    names got;
    mine.clear();
    tokens.clear();
    for (std::size_t i = 0; i < won.size(); ++i) {
      mine.push_back({list.at(i).name, list.at(i).term});
      if (!won.at(i)) continue;
      got.push_back(wanted.at(i));
      tokens[wanted.at(i)] = won.at(i)->token.value;
    }
    return got;
  }
  /// Its statements alone, for a transaction that the case has begun: {"name": ..., "term": ...}, ...
  void run_take_each(std::string const& list) { execute("each_take", take_parameters(list)); }
  static std::vector<backend::value> take_parameters(std::string const& list) {
    std::int64_t const one = 1;
    std::int64_t const ttl = 30'000;
    auto const text = [](char const* t) { return std::string(t); };
    return {list,          text("lease"), text("elsewhere"), one, text("process"), one, ttl,
            text("clock"), nullptr,       text(""),          one};
  }
  backend::result execute(std::string const& statement, std::vector<backend::value> const& parameters) {
    return session->execute(book.at(statement), parameters, boot_clock::now() + 30s);
  }
  void script(std::string_view sql) { session->script(sql, boot_clock::now() + 30s); }
  bool takes(names const& wanted) { return std::holds_alternative<strategies::all_granted>(take(wanted)); }
  std::vector<strategies::given_back> give_back() {
    return leases().give_back_all(*session, mine, boot_clock::now() + 30s);
  }
  strategies::locking_strategy const& leases() { return strategies_.of(strategy::lease); }

  backend::statement_book book;
  strategies::catalogue strategies_;
  std::unique_ptr<backend::connection> session;
  std::vector<strategies::name_and_term> mine;
  std::map<std::string, std::int64_t> tokens;
};

/// Makes the rows, which stay.
void make_rows(lock_manager& m, names const& all = {"a", "b", "c"}) { REQUIRE(m.try_acquire_all(all)); }

bool all_free(stranger& other, names const& all = {"a", "b", "c"}) {
  return std::all_of(all.begin(), all.end(), [&](auto const& n) { return other.sees_free(n); });
}

errc reason_of(std::function<void()> const& what) {
  try {
    what();
  } catch (error const& e) {
    return e.reason();
  }
  return {};
}

}  // namespace

LEASE_CASE("all at once: each has a term and a token of its own, and all go with one statement") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m);
  f.probe->reset();
  auto got = m->try_acquire_all({"c", "a", "b"});
  REQUIRE(got);
  CHECK(f.probe->executed("lock_take") == 1);
  REQUIRE(got->size() == 3);
  CHECK((*got)[0].name() == "c");
  CHECK((*got)[1].name() == "a");
  CHECK((*got)[2].name() == "b");
  CHECK((*got)[0].term() != (*got)[1].term());
  for (auto const& lock : *got) {
    auto const row = other.read(lock.name());
    CHECK(row->term == lock.term());
    CHECK(row->holder.token == lock.token());
    CHECK(row->longest == 30s);
    CHECK(lock.valid());
    CHECK_FALSE(other.take(lock.name()));
  }
  CHECK(got->valid());
  CHECK(got->release() == release_result::released);
  CHECK(f.probe->executed("lock_release") == 1);
  CHECK(all_free(other));
  CHECK_FALSE(got->valid());
  CHECK(got->release() == release_result::released);
  CHECK(f.probe->executed("lock_release") == 1);
}

LEASE_CASE("all at once: any name that is UTF-8") {
  stranger other(f);
  auto const m = f.manager();
  std::string controls;
  for (char c = 1; c < ' '; ++c) controls += c;
  names const odd{"\"'\"",  "\\",   "\\\"\\",           "$1 ? ; -- /* @x",
                  controls, "\x7f", "\xf0\x9f\x94\x92", std::string(255, '\x01')};
  auto got = m->try_acquire_all(odd);
  REQUIRE(got);
  for (auto const& lock : *got) {
    CHECK(other.read(lock.name())->term == lock.term());
    CHECK(other.read(lock.name())->holder.token == lock.token());
  }
  CHECK(got->release() == release_result::released);
  CHECK(all_free(other, odd));
}

LEASE_CASE("all at once: one that is held leaves the others as they were") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m, {"a", "c"});
  REQUIRE(other.take("b"));
  auto const a = other.token("a");
  auto const c = other.token("c");
  auto const got = m->try_acquire_all({"c", "b", "a", "d"});
  CHECK_FALSE(got);
  CHECK(got.status() == acquire_status::busy);
  CHECK(got.busy_name() == "b");
  REQUIRE(got.holder());
  CHECK(got.holder()->owner.process == "stranger");
  CHECK(other.has_still("b"));
  CHECK(all_free(other, {"a", "c"}));
  CHECK(other.token("a") == a);
  CHECK(other.token("c") == c);
  CHECK_FALSE(other.read("d"));
  CHECK_THROWS_WITH_AS((void)m->try_acquire_all({"a", "b"}).value(), doctest::Contains("'b'"), error);
}

LEASE_CASE("all at once: what can't be taken together is refused with the reason") {
  auto const m = f.manager();
  names most;
  for (int i = 0; i < 65; ++i) most.push_back("n" + std::to_string(i));
  CHECK(reason_of([&] { (void)m->try_acquire_all({}); }) == errc::invalid_argument);
  CHECK(reason_of([&] { (void)m->try_acquire_all({"a", "b", "a"}); }) == errc::invalid_argument);
  CHECK(reason_of([&] { (void)m->try_acquire_all({"a", ""}); }) == errc::invalid_argument);
  CHECK(reason_of([&] { (void)m->try_acquire_all(most); }) == errc::invalid_argument);
  CHECK(f.probe->executed("lock_take") == 0);
  most.pop_back();
  auto const got = m->try_acquire_all(most);
  REQUIRE(got);
  CHECK(got->size() == 64);
  CHECK(got->valid());
  CHECK(m->try_acquire_all({"a"}));
}

PAIRS_CASE("all at once: other strategies can't", others) {
  auto const m = f.manager();
  CHECK(reason_of([&] { (void)m->try_acquire_all({"a", "b"}); }) == errc::unsupported);
}

LEASE_CASE("all at once: a name that is used with another strategy is an error, and the others stay free") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m, {"a", "c"});
  auto const x = m->make_mutex("b", {.strategy = strategy::unique_insert}).acquire();
  REQUIRE(x);
  process elsewhere(f);
  CHECK(reason_of([&] { (void)elsewhere.take({"a", "b", "c"}); }) == errc::strategy_mismatch);
  CHECK(all_free(other, {"a", "c"}));
}

LEASE_CASE("all at once: an expired one among them is taken, and its former holder hears of it") {
  stranger other(f);
  auto const m = f.manager();
  REQUIRE(other.take("b"));
  auto const before = other.token("b");
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1));
  auto const got = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(got);
  CHECK((*got)[1].token().value > before);
  CHECK_FALSE(other.has_still("b"));
  CHECK_FALSE(other.release("b"));
  CHECK(got->valid());
}

LEASE_CASE("all at once: tokens rise for each name, also above the floor of a new row") {
  stranger other(f);
  auto const m = f.manager();
  std::int64_t const floor = 5'000'000'000'000'000;
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(floor));
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('a', 1), ('b', " + std::to_string(floor + 100) +
        ")");
  std::int64_t a = floor;
  std::int64_t b = floor + 100;
  for (int i = 0; i < 3; ++i) {
    auto const got = m->try_acquire_all({"a", "b"});
    REQUIRE(got);
    CHECK((*got)[0].token().value > a);
    CHECK((*got)[1].token().value > b);
    a = (*got)[0].token().value;
    b = (*got)[1].token().value;
  }
  REQUIRE(other.take("a"));
  CHECK(other.token("a") > a);
  auto const without = m->try_acquire_all({"b", "c"}, {.fencing = false});
  REQUIRE(without);
  CHECK_FALSE((*without)[0].token());
  CHECK(other.token("b") == b);
}

LEASE_CASE("all at once: the free row of another strategy is not taken") {
  make_rows(*f.manager());
  f.sql("UPDATE rowlock_locks SET strategy = 'row_lock' WHERE name = 'b'");
  process p(f);
  CHECK(reason_of([&] { (void)p.take({"a", "b", "c"}); }) == errc::strategy_mismatch);
  CHECK(p.takes({"a", "c"}));
}

LEASE_CASE("all at once: no token is below the clock, so that a row deleted by hand has the clock to go on") {
  auto const m = f.manager();
  auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  auto const got = m->try_acquire_all({"a", "b"});
  REQUIRE(got);
  CHECK((*got)[0].token().value > now - 60'000'000);
  CHECK((*got)[1].token().value > now - 60'000'000);
}

LEASE_CASE("all at once: C47: sets that cross each other never deadlock, and each is whole") {
  process first(f);
  process second(f);
  process third(f);
  REQUIRE(first.takes({"a", "b", "c", "d"}));
  first.give_back();
  std::atomic<int> inside{0};
  std::atomic<int> deadlocks{0};
  std::atomic<int> waited{0};
  auto const work = [&](process& p, names const& set) {
    int had = 0;
    for (int tries = 0; had < 150 && tries < 100'000; ++tries) {
      try {
        auto const before = boot_clock::now();
        bool const got = p.takes(set);
        if (boot_clock::now() - before > 900ms) ++waited;  // as long as a session waits for a row
        if (!got) continue;
        CHECK(++inside == 1);
        --inside;
        ++had;
        auto const given = p.give_back();
        for (std::size_t i = 0; i < given.size(); ++i)  // skipped, because the other one just looked at it
          if (!given[i].was_there)
            CHECK(p.leases().give_back(*p.session, p.mine[i], 0ms, boot_clock::now() + 30s).was_there);
      } catch (error const& e) {
        if (e.reason() == errc::conflict) ++deadlocks;
        if (e.reason() == errc::row_locked) ++waited;
        if (e.reason() == errc::conflict || e.reason() == errc::row_locked) continue;
        FAIL_CHECK(std::string(e.what()));
        return;
      }
    }
    CHECK(had == 150);
  };
  {
    std::jthread const one([&] { work(first, {"a", "b", "c"}); });
    std::jthread const two([&] { work(second, {"b", "c", "d"}); });
    std::jthread const three([&] { work(third, {"a", "c", "d"}); });
  }
  CHECK(deadlocks == 0);
  if (on_a_server(pair)) CHECK(waited <= 100);  // of 450 and more: a machine may stall
}

// Whoever has one of the rows and wants another one would stand in a circle with whoever waits for it with
// that one locked.
SERVER_LEASE_CASE("all at once: C47: nothing that is done to several rows waits for one of them") {
  stranger other(f);
  process several(f);
  REQUIRE(several.takes({"a", "b", "c"}));
  open_transaction first(f);
  first.run("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'b'");
  auto const given = several.give_back();  // it would throw if it had waited
  REQUIRE(given.size() == 3);
  CHECK(given[0].was_there);
  CHECK_FALSE(given[1].was_there);
  CHECK(given[2].was_there);
  first.commit();
  REQUIRE(
      several.leases().give_back(*several.session, several.mine[1], 0ms, boot_clock::now() + 30s).was_there);
  open_transaction second(f);
  second.run("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'b'");
  several.script(begin_of(f));
  several.run_take_each(R"([{"name":"a","term":"1"},{"name":"b","term":"2"},{"name":"c","term":"3"}])");
  several.script("COMMIT");
  CHECK_FALSE(other.sees_free("a"));
  CHECK(other.sees_free("b"));
  CHECK_FALSE(other.sees_free("c"));
}

// On MySQL and MariaDB one number tells all that: a bit for each of the first 63 places, or the token.
SERVER_LEASE_CASE(
    "all at once: of 64 it is told which were taken, with which tokens, and which were released") {
  stranger other(f);
  names all;
  for (int i = 0; i < 64; ++i) all.push_back((i < 10 ? "n0" : "n") + std::to_string(i));
  process several(f);
  REQUIRE(several.takes(all));
  several.give_back();
  auto const takes_but = [&](std::string const& locked) {
    names others_are = all;
    std::erase(others_are, locked);
    std::optional<open_transaction> t;
    if (!locked.empty())
      t.emplace(f).run("UPDATE rowlock_locks SET note = 'locked' WHERE name = '" + locked + "'");
    CHECK(several.take_each(all) == others_are);
    for (auto const& [name, token] : several.tokens) CHECK(token == other.token(name));
    CHECK(several.tokens.size() == others_are.size());
  };
  auto const gives_back_but = [&](std::string const& locked) {
    std::optional<open_transaction> t;
    if (!locked.empty())
      t.emplace(f).run("UPDATE rowlock_locks SET note = 'locked' WHERE name = '" + locked + "'");
    auto const done = several.give_back();
    REQUIRE(done.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(all[i]);
      CHECK(done[i].was_there == (all[i] != locked));
    }
  };
  for (std::string const locked : {"", "n00", "n31", "n62", "n63"}) {
    CAPTURE(locked);
    takes_but(locked);
    f.sql("UPDATE rowlock_locks SET term = NULL");
    takes_but("");
    gives_back_but(locked);
    f.sql("UPDATE rowlock_locks SET term = NULL");
  }
  // One of them is far ahead: the others' tokens stay.
  f.sql("UPDATE rowlock_locks SET token = 8000000000000000 WHERE name = 'n07'");
  takes_but("");
  CHECK(other.token("n07") == 8'000'000'000'000'001);
  CHECK(other.token("n08") < 7'000'000'000'000'000);
  // What was lost before is not given back.
  f.sql("UPDATE rowlock_locks SET term = 'taken over' WHERE name = 'n63'");
  gives_back_but("n63");
}

PAIRS_CASE("all at once: of those that are released together it is told at which others wait",
           all<leases_on_servers, direct>) {
  auto const waiting = f.connect();
  for (std::string const place : {"a", "c"}) {
    CAPTURE(place);
    process several(f);
    REQUIRE(several.takes({"a", "b", "c"}));
    REQUIRE(waiting->enter_queue(f.tables(), place, "a process", boot_clock::now() + 30s, 30s, {}) ==
            backend::queue_entry::was_free);
    auto const done = several.give_back();
    REQUIRE(done.size() == 3);
    CHECK(done[0].others_wait == (place == "a"));
    CHECK_FALSE(done[1].others_wait);
    CHECK(done[2].others_wait == (place == "c"));
    waiting->leave_queue(boot_clock::now() + 30s);
  }
}

LEASE_CASE("all at once: C48: a row that a transaction has locked is skipped, not waited for") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m);
  process elsewhere(f);
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'b'");
  CHECK(m->try_acquire_all({"a", "b", "c"}).status() == acquire_status::contended);
  CHECK(all_free(other));
  if (!on_a_server(pair)) return;
  // A wait would be a second, each time. The rest is a busy machine.
  CHECK(eventually([&] {
    auto const before = boot_clock::now();
    CHECK_FALSE(elsewhere.takes({"a", "b", "c"}));
    return boot_clock::now() - before < 900ms;
  }));
  CHECK(other.take("a"));
  REQUIRE(other.release("a"));
  t.commit();
  CHECK(m->try_acquire_all({"a", "b", "c"}));
}

SERVER_LEASE_CASE(
    "all at once: of those that are asked for together, one that is just taken or renewed is left out") {
  stranger other(f);
  process single(f);
  process several(f);
  REQUIRE(several.takes({"a", "b", "c"}));
  several.give_back();
  auto const free_all = [&] { several.script("UPDATE " + f.tables().table("locks") + " SET term = NULL"); };
  // A take of one of them is under way.
  single.script(begin_of(f));
  single.run_take_each(R"([{"name":"b","term":"single"}])");
  CHECK(several.take_each({"a", "b", "c"}) == names{"a", "c"});
  single.script("COMMIT");
  CHECK(other.read("b")->term.value == "single");
  CHECK(several.take_each({"b"}).empty());
  free_all();
  // A renewal of one that has expired.
  REQUIRE(other.take("b", 100ms));
  REQUIRE(eventually([&] { return other.read("b")->takeable(); }));
  auto const term = other.read("b")->term;
  single.script(begin_of(f));
  REQUIRE(single.execute("lock_renew", {R"([{"name":"b","term":")" + term.value + R"("}])"}).affected == 1);
  CHECK(several.take_each({"a", "b", "c"}) == names{"a", "c"});
  single.script("ROLLBACK");
  // On PostgreSQL the row shows its last lock until it is written again.
  if (dialect_of(f) == dialect::postgresql) CHECK(several.take_each({"b"}).empty());
  CHECK(several.takes({"b"}));
}

SERVER_LEASE_CASE(
    "all at once: while they are taken together, a take of one of them waits, and a renewal does not") {
  stranger other(f);
  process several(f);
  REQUIRE(several.takes({"a", "b", "c"}));
  several.give_back();
  REQUIRE(other.take("b", 100ms));
  REQUIRE(eventually([&] { return other.read("b")->takeable(); }));
  several.script(begin_of(f));
  several.run_take_each(R"([{"name":"a","term":"t1"},{"name":"b","term":"t2"},{"name":"c","term":"t3"}])");
  CHECK_FALSE(other.renew("b"));
  std::atomic<bool> waits{true};
  stranger third(f, "third");
  be_patient(f, third.session());
  {
    std::jthread const single([&] {
      CHECK_FALSE(third.take("a"));
      waits = false;
    });
    std::this_thread::sleep_for(100ms);
    CHECK(waits);
    several.script("COMMIT");
  }
  CHECK_FALSE(other.renew("b"));
  CHECK(other.read("a")->term.value == "t1");
  CHECK(other.read("b")->term.value == "t2");
}

LEASE_CASE("all at once: a take whose reply was lost is found by its terms") {
  stranger other(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  make_rows(*m);
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && lost-- > 0) lose_reply();
  };
  f.probe->reset();
  auto const got = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(got);
  CHECK(f.probe->executed("lock_take") == 1);
  for (auto const& lock : *got) {
    CHECK(other.read(lock.name())->term == lock.term());
    CHECK(other.read(lock.name())->holder.token == lock.token());
  }
}

constexpr bool reads_back(running_pair const& p) { return p.engine == dialect::mysql; }

// The tokens are too far apart to be told by one number.
PAIRS_CASE("all at once: a take whose tokens could not be read back is found by its terms",
           all<leases, reads_back>) {
  stranger other(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  make_rows(*m);
  f.sql("UPDATE rowlock_locks SET token = 8000000000000000 WHERE name = 'b'");
  f.probe->after = [&](std::string const& s) {
    if (s == "all_take_done" && lost-- > 0) lose_reply();
  };
  f.probe->reset();
  auto const got = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(got);
  CHECK(lost <= 0);
  CHECK(f.probe->executed("lock_take") == 1);
  for (auto const& lock : *got) {
    CHECK(other.read(lock.name())->term == lock.term());
    CHECK(other.read(lock.name())->holder.token == lock.token());
  }
}

LEASE_CASE("all at once: one that never arrived is tried again, with other terms") {
  std::atomic<int> lost{1};
  auto const m = f.manager();
  make_rows(*m);
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take" && lost-- > 0) lose_reply();
  };
  f.probe->reset();
  CHECK(m->try_acquire_all({"a", "b", "c"}));
  CHECK(f.probe->executed("lock_take") == 2);
}

LEASE_CASE("all at once: in doubt is said to be in doubt, and nothing leaks") {
  stranger other(f);
  std::atomic<bool> away{false};
  auto const m = f.manager();
  make_rows(*m);
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_take") return;
    away = true;
    lose_reply();
  };
  f.probe->before = [&](std::string const&) {
    if (away) throw error(errc::unreachable, "away by the test");
  };
  CHECK(reason_of([&] { (void)m->try_acquire_all({"a", "b", "c"}); }) == errc::in_doubt);
  CHECK_FALSE(other.sees_free("a"));
  CHECK_FALSE(other.sees_free("b"));
  CHECK_FALSE(other.sees_free("c"));
  f.probe->after = nullptr;
  away = false;
  CHECK(eventually([&] { return all_free(other); }));
}

LEASE_CASE("all at once: a doubtful take of which one is gone gives back the others") {
  stranger other(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  make_rows(*m);
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_take" || lost-- <= 0) return;
    REQUIRE(other.take_over("b"));
    lose_reply();
  };
  auto const got = m->try_acquire_all({"a", "b", "c"});
  CHECK(got.status() == acquire_status::busy);
  CHECK(got.busy_name() == "b");
  CHECK(other.has_still("b"));
  CHECK(eventually([&] { return all_free(other, {"a", "c"}); }));
}

LEASE_CASE("all at once: a release whose reply was lost is in doubt, and each term is done by the keeper") {
  stranger other(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  auto got = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(got);
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && lost-- > 0) lose_reply();
  };
  CHECK(got->release() == release_result::in_doubt);
  CHECK(eventually([&] { return all_free(other); }));
  // Applied all the same: whoever has the name since is not touched.
  auto again = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(again);
  f.probe->reset();
  lost = 1;
  f.probe->before = nullptr;
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_release" || lost-- <= 0) return;
    REQUIRE(other.take("a"));
    lose_reply();
  };
  CHECK(again->release() == release_result::in_doubt);
  CHECK(eventually([&] { return f.probe->executed("lock_release") >= 4; }));
  CHECK(other.has_still("a"));
  CHECK(all_free(other, {"b", "c"}));
}

SERVER_LEASE_CASE("all at once: a release frees what is not locked at once, and the rest later") {
  stranger other(f);
  auto const m = f.manager();
  auto got = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(got);
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'b'");
  auto const how = got->release();
  // InnoDB looks only each second for waits that have lasted too long: on a slow machine the time that the
  // release has may be over before.
  CHECK((how == release_result::handed_over || how == release_result::in_doubt));
  CHECK(all_free(other, {"a", "c"}));
  CHECK_FALSE(other.sees_free("b"));
  t.commit();
  CHECK(eventually([&] { return other.sees_free("b"); }));
}

LEASE_CASE("all at once: one may be lost or given back by itself") {
  stranger other(f);
  auto const m = f.manager();
  auto got = m->try_acquire_all({"a", "b", "c"}, {.ttl = 12s});  // the renewal is to come before it is over
  REQUIRE(got);
  REQUIRE(other.take_over("b"));
  CHECK(eventually([&] { return (*got)[1].loss().has_value(); }));
  CHECK((*got)[1].loss() == loss_reason::taken_over);
  CHECK_FALSE(got->valid());
  CHECK((*got)[0].valid());
  CHECK((*got)[2].release() == release_result::released);
  CHECK(other.sees_free("c"));
  CHECK(got->release() == release_result::already_lost);
  CHECK(other.sees_free("a"));
  CHECK(other.has_still("b"));
}

LEASE_CASE("all at once: a release never touches another's term") {
  stranger other(f);
  auto const m = f.manager();
  auto got = m->try_acquire_all({"a", "b", "c"});
  REQUIRE(got);
  REQUIRE(other.take_over("b"));
  CHECK(got->release() == release_result::already_lost);
  CHECK((*got)[1].loss() == loss_reason::taken_over);
  CHECK(other.has_still("b"));
  CHECK(all_free(other, {"a", "c"}));
}

LEASE_CASE("all at once: they are renewed, and end with their manager") {
  stranger other(f);
  auto m = f.manager();
  auto const got = m->try_acquire_all({"a", "b"}, {.ttl = 9s});
  REQUIRE(got);
  auto const trust = *(*got)[1].trusted_until();
  CHECK(eventually([&] { return *(*got)[1].trusted_until() > trust; }));
  CHECK(got->valid());
  m.reset();
  CHECK(all_free(other, {"a", "b"}));
  CHECK_FALSE(got->valid());
}

LEASE_CASE("all at once: what this process has is busy, and is not asked of the database") {
  auto const m = f.manager();
  make_rows(*m);
  auto const b = m->make_mutex("b").acquire();
  CHECK(reason_of([&] { (void)m->try_acquire_all({"a", "b", "c"}); }) == errc::would_deadlock);
  CHECK(reason_of([&] { (void)m->acquire_all({"a", "b", "c"}); }) == errc::would_deadlock);
  f.probe->reset();
  auto const got = m->try_acquire_all({"a", "b", "c"}, each());
  CHECK(got.status() == acquire_status::busy);
  CHECK(got.busy_name() == "b");
  CHECK(got.holder()->token == b->token());
  CHECK(f.probe->executed("lock_take") == 0);
  CHECK(m->make_mutex("a").try_acquire());  // no place in line was kept
  auto const rest = m->try_acquire_all({"a", "c"});
  REQUIRE(rest);
  CHECK(reason_of([&] { (void)m->make_mutex("c").try_acquire(); }) == errc::would_deadlock);
  CHECK(m->make_recursive_mutex("c").try_acquire());
  CHECK(m->make_mutex("c", each()).try_acquire().status() == acquire_status::busy);
}

LEASE_CASE("all at once: an explicit owner comes back to its own, but not to what is to be given back") {
  stranger other(f);
  auto const m = f.manager();
  auto o = mutex_options{.owner = takes_over{"job"}};
  auto const before = m->make_mutex("b", o).acquire();
  REQUIRE(before);
  auto const got = m->try_acquire_all({"a", "b"}, o);
  REQUIRE(got);
  CHECK(before->loss() == loss_reason::taken_over);
  CHECK((*got)[1].token() > before->token());
  CHECK(m->try_acquire_all({"c"}));
  REQUIRE(m->revoke("b", revoke_mode::at_renewal));
  CHECK(m->try_acquire_all({"b", "c"}, o).status() == acquire_status::busy);
  CHECK(other.read("b")->term == (*got)[1].term());
}

LEASE_CASE("C24: a row with times that no calendar has is read: by itself, in a list, and with others") {
  std::map<dialect, names> const odd{
      {dialect::sqlite, {"9223372036854775807", "-9223372036854775807"}},
      {dialect::postgresql, {"'infinity'", "'-infinity'", "'294276-01-01'", "'4713-01-01 BC'"}},
      {dialect::mysql, {"'9999-12-31 23:59:59.999999'", "'0001-01-01'"}}};
  stranger other(f);
  auto const m = f.manager();
  process p(f);
  REQUIRE(other.take("b"));
  for (std::string const column : {"acquired_at", "expires_at"}) {
    for (auto const& time : odd.at(dialect_of(f))) {
      CAPTURE(column);
      CAPTURE(time);
      f.sql("UPDATE rowlock_locks SET " + column + " = " + time + " WHERE name = 'b'");
      CHECK(other.has_still("b"));
      CHECK(m->list().size() == 1);
      strategies::term_rows const rows(p.book);
      std::vector<strategies::name_and_term> const one{{"b", {}}};
      auto const all = rows.read_all(*p.session, one, boot_clock::now() + 30s);
      auto const latest = std::chrono::milliseconds(253'402'214'400'000);  // the last day of the year 9999
      for (auto const& row : {*all.at(0), *other.read("b")}) {
        CHECK(row.name == "b");
        CHECK(row.holder.expires_in < latest);
      }
      CHECK(m->list().at(0).holder.expires_in < latest);
    }
  }
  f.sql("UPDATE rowlock_locks SET acquired_at = NULL, expires_at = " + in_ms(f, 30'000));
  auto const not_said = std::chrono::system_clock::time_point{};
  CHECK(other.read("b")->holder.acquired_at == not_said);
  CHECK(m->list().at(0).holder.acquired_at == not_said);
  CHECK(m->try_acquire_all({"a", "b"}, each()).holder()->acquired_at == not_said);
}

LEASE_CASE("all at once: what is observed is taken when it has been silent, and not by the clock") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m);  // or nothing is taken at first, whatever b is
  REQUIRE(other.take("b", 200ms, takeover::observed));
  auto const seen_at = boot_clock::now();
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000));
  CHECK(m->try_acquire_all({"a", "b"}).status() == acquire_status::busy);
  CHECK(m->acquire_all({"a", "b"}, {.retry = {.first = 5ms, .longest = 10ms}}));
  CHECK(boot_clock::now() - seen_at >= 200ms);
}

LEASE_CASE(
    "all at once: what is to be replaced is named by its term, and by its renewals if it was watched") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m);
  process p(f);
  REQUIRE(other.take("b"));
  auto const seen = *other.read("b");
  CHECK_FALSE(p.replaces({"a", "b"}, {{base::random_id()}, std::nullopt}));
  CHECK_FALSE(p.replaces({"a", "b"}, {{base::random_id()}, seen.renewals}));
  REQUIRE(other.renew("b"));
  CHECK_FALSE(p.replaces({"a", "b"}, {seen.term, seen.renewals}));
  // Its owner comes back to it, but not to what is to be given back. Who has watched it asks nobody.
  REQUIRE(m->revoke("b", revoke_mode::at_renewal));
  CHECK_FALSE(p.replaces({"a", "b"}, {seen.term, std::nullopt}));
  CHECK(other.has_still("b"));
  CHECK(other.sees_free("a"));
  CHECK(p.replaces({"a", "b"}, {seen.term, seen.renewals + 1}));
  REQUIRE(other.take("c"));
  CHECK(p.replaces({"c"}, {other.read("c")->term, std::nullopt}));
}

LEASE_CASE("all at once: what is free is taken, whatever the clock was when it was given back") {
  auto const m = f.manager();
  make_rows(*m);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 3'600'000));
  CHECK(m->try_acquire_all({"a", "b"}));
}

LEASE_CASE("all at once: nothing is taken before its time is over") {
  stranger other(f);
  make_rows(*f.manager());
  process p(f);
  REQUIRE(other.take("b"));
  bool in_time = false;
  for (int tries = 0; tries < 60 && !in_time; ++tries) {
    auto const before = boot_clock::now();
    f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 1500) + " WHERE name = 'b'");
    bool const got = p.takes({"a", "b"});
    in_time = boot_clock::now() - before < 1s;  // on a busy machine it may be over
    if (in_time) CHECK_FALSE(got);
    if (got) {
      p.give_back();
      REQUIRE(other.take("b"));
    }
  }
  CHECK(in_time);
}

LEASE_CASE("all at once: a term that a clock which went back keeps is taken when it has been silent (C5)") {
  stranger other(f);
  auto const m = f.manager();
  REQUIRE(other.take("b", 300ms));
  auto const seen_at = boot_clock::now();
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 3'600'000) + " WHERE name = 'b'");
  CHECK(m->try_acquire_all_for({"a", "b"}, 60s));
  CHECK(boot_clock::now() - seen_at >= 300ms);
}

LEASE_CASE("all at once: who waits for one has none of the others") {
  stranger other(f);
  auto const m = f.manager();
  make_rows(*m);
  REQUIRE(other.take("b"));
  std::atomic<int> waits{0};
  acquisition_of_all got(acquire_status::busy, "", {});
  mutex_options o{.retry = {.first = 5ms, .longest = 20ms}, .on_wait = [&](holder_info const*) { ++waits; }};
  {
    std::jthread const waiter([&] { got = m->acquire_all({"a", "b", "c"}, o); });
    REQUIRE(eventually([&] { return waits >= 1; }));
    CHECK(other.take("a"));  // in the database
    REQUIRE(other.release("a"));
    CHECK(eventually(
        [&] { return static_cast<bool>(m->make_mutex("c").try_acquire()); }));  // and in this process
    CHECK_FALSE(got);
    REQUIRE(other.release("b"));
  }
  REQUIRE(got);
  CHECK(got->valid());
  CHECK(got->release() == release_result::released);
  CHECK(all_free(other));
}

LEASE_CASE("all at once: waits crosswise in one process come to their end") {
  stranger other(f);
  auto const m = f.manager();
  auto a = m->make_mutex("a");
  auto b = m->make_mutex("b");
  auto held = b.acquire();
  std::atomic<int> waits{0};
  mutex_options o{.on_wait = [&](holder_info const*) { ++waits; }};
  {
    std::jthread const waiter([&] {
      auto const got = m->acquire_all({"a", "b"}, o);
      CHECK(got);
    });
    REQUIRE(eventually([&] { return waits >= 1; }));
    CHECK(a.acquire());  // it would wait for ever if the other one kept its place
    CHECK(held->release() == release_result::released);
  }
  std::atomic<int> had{0};
  {
    std::vector<std::jthread> threads;
    for (auto const& set : {names{"a", "b"}, names{"b", "c"}, names{"c", "a"}, names{"c", "b", "a"}})
      threads.emplace_back([&, set] {
        for (int i = 0; i < 20; ++i) {
          auto const got = m->acquire_all(set);
          if (got && got->valid()) ++had;
        }
      });
  }
  CHECK(had == 80);
  CHECK(all_free(other));
}

LEASE_CASE("all at once: two managers of one process, and single locks beside them") {
  auto const m = f.manager();
  auto const n = f.manager();
  std::atomic<int> had{0};
  std::atomic<int> inside{0};
  auto const enter = [&] {
    CHECK(++inside == 1);
    --inside;
    ++had;
  };
  {
    std::jthread const one([&] {
      for (int i = 0; i < 20; ++i)
        if (auto const got = m->acquire_all({"a", "b"})) enter();
    });
    std::jthread const two([&] {
      for (int i = 0; i < 20; ++i)
        if (auto const got = n->acquire_all({"b", "a"})) enter();
    });
    std::jthread const three([&] {
      for (int i = 0; i < 20; ++i)
        if (auto const got = n->make_mutex("b").acquire()) enter();
    });
  }
  CHECK(had == 60);
}

LEASE_CASE("all at once: a wait ends at its deadline, when it is stopped, and with its manager") {
  stranger other(f);
  auto m = f.manager();
  REQUIRE(other.take("b"));
  auto const late = m->try_acquire_all_for({"a", "b"}, 30ms);
  CHECK(late.status() == acquire_status::timed_out);
  CHECK(late.busy_name() == "b");
  CHECK(m->acquire_all({"a", "b"}, {.retry = {.first = 1ms, .attempts = 3}}).status() ==
        acquire_status::timed_out);
  std::atomic<int> waits{0};
  mutex_options const o{.on_wait = [&](holder_info const*) { ++waits; }};
  std::stop_source stop;
  {
    std::jthread const waiter([&] {
      CHECK(m->acquire_all({"a", "b"}, o, stop.get_token()).status() == acquire_status::cancelled);
    });
    REQUIRE(eventually([&] { return waits >= 1; }));
    stop.request_stop();
  }
  waits = 0;
  auto* const left = m.get();
  std::jthread const waiter([&] {
    CHECK(left->acquire_all({"a", "b"}, o).status() == acquire_status::cancelled);
  });
  REQUIRE(eventually([&] { return waits >= 1; }));
  m.reset();
}

LEASE_CASE("all at once: one without tokens may go on to the next thread in line") {
  stranger other(f);
  stranger third(f);
  auto const m = f.manager();
  auto o = each();
  o.fencing = false;
  for (int i = 0; i < 20; ++i) {
    auto got = m->try_acquire_all({"a", "b"}, o);
    REQUIRE(got);
    std::atomic<bool> waits{false};
    auto next = o;
    next.on_wait = [&](holder_info const*) { waits = true; };
    {
      std::jthread const successor([&] {
        auto const mine = m->make_mutex("a", next).acquire();
        CHECK(mine->valid());
        CHECK_FALSE(third.take("a"));
      });
      REQUIRE(eventually([&] { return waits.load(); }));
      CHECK(got->release() == release_result::released);
      CHECK(other.take("b"));
      REQUIRE(other.release("b"));
    }
    CHECK(all_free(other, {"a", "b"}));
  }
}

#ifndef ROWLOCK_OTHER_ALLOCATOR
// The call gives back all of its terms once more at its end: whoever had been handed one of them would lose
// it.
LEASE_CASE("all at once: what is given back because another can't be held goes to nobody") {
  stranger other(f);
  std::optional<memory_runs_out> refused_once;
  std::atomic<bool> armed{false};
  std::atomic<bool> begun{false};
  std::atomic<bool> waits{false};
  std::atomic<bool> has{false};
  std::atomic<bool> looked{false};
  auto events = f.options;
  events.on_event = [&](event const& e) {  // the next thing that this thread does is to hold the next one
    if (e.kind == event_kind::taken && e.name == "a" && armed.exchange(false)) refused_once.emplace(0);
  };
  auto const m = f.manager(events);
  auto o = each();
  SUBCASE("with") { o.fencing = true; }
  SUBCASE("without") { o.fencing = false; }
  { auto const makes_rows = m->acquire_all({"a", "b"}, o); }
  auto next = o;
  next.on_wait = [&](holder_info const*) { waits = true; };
  std::jthread successor;
  f.probe->reset();
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_take" || begun.exchange(true)) return;
    successor = std::jthread([&] {
      auto const mine = m->make_mutex("a", next).acquire();
      has = true;
      CHECK(eventually([&] { return looked.load(); }));
      CHECK(mine->valid());
    });
    CHECK(eventually([&] { return waits.load(); }));
  };
  armed = true;
  CHECK_THROWS_AS((void)m->acquire_all({"a", "b"}, o), std::bad_alloc);
  f.probe->before = nullptr;
  CHECK(eventually([&] { return has && f.probe->executed("lock_release") >= 3 && other.sees_free("b"); }));
  CHECK_FALSE(other.take("a"));
  looked = true;
}
#endif

LEASE_CASE("B17: all at once: an explicit owner's call that comes too late takes nothing from a newer one") {
  std::optional<acquisition_of_all> newer;
  std::atomic<bool> armed{true};
  auto const n = f.manager();
  mutex_options const o{.owner = takes_over{"job-7"}};
  auto events = f.options;
  events.on_event = [&](event const& e) {
    if (e.kind == event_kind::taken && e.name == "b" && armed.exchange(false))
      std::jthread([&] { newer.emplace(n->try_acquire_all({"a", "b"}, o)); }).join();
  };
  auto const m = f.manager(events);
  CHECK(reason_of([&] { (void)m->try_acquire_all_for({"a", "b"}, 60s, o); }) == errc::unreachable);
  REQUIRE(newer);
  REQUIRE(*newer);
  CHECK((*newer)->valid());
}

LEASE_CASE(
    "B17: all at once: who asks once, is refused by its own grant, and then is too late, has nothing") {
  stranger other(f);
  std::atomic<int> refused{0};
  std::atomic<bool> armed{false};
  std::atomic<bool> lost{false};
  auto events = f.options;
  events.on_event = [&](event const& e) {
    if (e.kind == event_kind::lost && e.name == "a") lost = true;
    if (e.kind != event_kind::taken || !armed.exchange(false)) return;
    CHECK(other.take_over("a"));
    CHECK(eventually([&] { return lost.load(); }));
    CHECK(other.release("a"));
  };
  auto const m = f.manager(events);
  { auto const makes_rows = m->acquire_all({"a", "b"}); }
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && refused-- > 0) throw error(errc::row_locked, "by the test");
  };
  refused = 1;
  armed = true;
  CHECK(reason_of([&] { (void)m->try_acquire_all({"a", "b"}, {.ttl = 2s}); }) == errc::unreachable);
  CHECK_FALSE(armed);
  // Nobody has them, in the database and in this process.
  CHECK(other.take("b"));
  CHECK(other.release("b"));
  CHECK(m->try_acquire_all({"a", "b"}));
}

// How a lock is lost, and how its holder hears of it.
#include <mutex>
#include <optional>
#include <thread>

#include "base/boot_lead.hpp"
#include "contract/fixture.hpp"
#include "contract/open_transaction.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct held_and_watched {
  explicit held_and_watched(lock_manager& m, std::chrono::milliseconds ttl = 9s)
      : mutex(m.make_mutex("x", {.ttl = ttl})), lock(mutex.acquire()) {}
  bool told() {
    return eventually([&] { return lock->loss_token().stop_requested(); });
  }
  rowlock::mutex mutex;
  acquisition lock;
};

}  // namespace

CONTRACT_CASE("a lock whose row was deleted is lost: row gone") {
  auto const m = f.manager();
  held_and_watched h(*m);
  f.sql("DELETE FROM rowlock_locks");
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::row_gone);
  CHECK(h.lock->release() == release_result::already_lost);
}

CONTRACT_CASE("R2: a lock that was taken over is lost, and release says so") {
  stranger other(f);
  auto const m = f.manager();
  held_and_watched h(*m);
  REQUIRE(other.take_over("x"));
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::taken_over);
  CHECK_FALSE(h.lock->valid());
  CHECK(*h.lock->trusted_until() <= boot_clock::now());
  CHECK(h.lock->release() == release_result::already_lost);
  CHECK(other.renew("x"));
}

CONTRACT_CASE("revoke is heard of at the next renewal; exclusion stays until the holder lets go") {
  stranger other(f);
  auto const m = f.manager();
  held_and_watched h(*m, 6s);
  CHECK_FALSE(m->revoke("nobody has it", revoke_mode::at_renewal));
  CHECK(m->revoke("x", revoke_mode::at_renewal));
  CHECK_FALSE(other.take("x"));
  CHECK(m->list().at(0).holder.revoked);
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::revoked);
  CHECK(*h.lock->trusted_until() > boot_clock::now());  // time to stop
  CHECK_FALSE(other.take("x"));
  CHECK(h.lock->release() == release_result::already_lost);
  CHECK(eventually([&] { return other.take("x"); }));
}

CONTRACT_CASE("a revoked row is never prolonged") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 60s, .renew = false});
  auto lock = x.acquire();
  REQUIRE(m->revoke("x", revoke_mode::at_renewal));
  auto const trust = *lock->trusted_until();
  CHECK_FALSE(lock->extend(60s));
  CHECK(lock->loss() == loss_reason::revoked);
  CHECK(*lock->trusted_until() == trust);
}

CONTRACT_CASE("revoke now frees at once, and the holder hears of it") {
  stranger other(f);
  auto const m = f.manager();
  held_and_watched h(*m);
  CHECK(m->revoke("x", revoke_mode::now));
  REQUIRE(h.told());
  // A row of unique_insert is deleted a moment later, as by who gives it back (C33).
  CHECK((h.lock->loss() == loss_reason::revoked ||
         (!pair.keeps_row() && h.lock->loss() == loss_reason::row_gone)));
  CHECK(other.take("x"));
  CHECK(h.lock->release() == release_result::already_lost);
  CHECK(other.renew("x"));
}

CONTRACT_CASE("K1, K2: failing renewals neither end renewal nor the lock while trust runs") {
  base::boot_clock_may_lead();
  std::atomic<int> failing{5};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_renew" && failing-- > 0) throw error(errc::unreachable, "cut off by the test");
  };
  held_and_watched h(*m, 30s);
  auto const trust = *h.lock->trusted_until();
  base::boot_clock_leads_by(10s);  // it is to be renewed
  CHECK(eventually([&] { return *h.lock->trusted_until() > trust; }));
  CHECK(h.lock->valid());
  failing = 1;
  f.probe->before = nullptr;
}

CONTRACT_CASE("K1: even an exception that is none of ours does not end renewal") {
  std::atomic<int> failing{3};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_renew" && failing-- > 0) throw std::runtime_error("out of the blue");
  };
  held_and_watched h(*m, 6s);
  auto const trust = *h.lock->trusted_until();
  CHECK(eventually([&] { return *h.lock->trusted_until() > trust; }));
}

CONTRACT_CASE("a database that is away for longer: loss is reported before trust ends") {
  base::boot_clock_may_lead();
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_renew") throw error(errc::unreachable, "cut off by the test");
  };
  held_and_watched h(*m, 30s);  // it is told a second before trust ends
  auto const trust = *h.lock->trusted_until();
  base::boot_clock_leads_by(trust - boot_clock::now() - 3s);
  std::atomic<boot_clock::rep> told{0};
  std::stop_callback const on_loss(h.lock->loss_token(),
                                   [&] { told = boot_clock::now().time_since_epoch().count(); });
  REQUIRE(eventually([&] { return told != 0; }));
  CHECK(boot_time_point(boot_clock::duration(told.load())) < trust);
  CHECK(h.lock->loss() == loss_reason::database_unreachable);
}

PAIRS_CASE(
    "C75: a row that was locked for too long: the loss says so, and which session has it, if that can be had",
    all<leases, on_a_server>) {
  std::mutex guard;
  std::string said;
  std::atomic<int> errors{0};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    std::lock_guard const hold(guard);
    if (e.kind == event_kind::lost) said = e.message;
    if (e.kind == event_kind::error) ++errors;
  };
  base::boot_clock_may_lead();
  auto const m = f.manager(o);
  held_and_watched h(*m, 60s);
  open_transaction other(f);
  other.run("SELECT 1 FROM rowlock_locks WHERE name = 'x' FOR UPDATE");
  base::boot_clock_leads_by(25s);  // it is to be renewed
  // So long as it asks no more, the answer is known. (After another trouble in between it asks again.)
  REQUIRE(eventually([&] {
    auto const asked = f.probe->executed("lock_locked_by");
    auto const tries = f.probe->executed("lock_check");
    return asked > 0 && eventually([&] { return f.probe->executed("lock_check") > tries + 2; }) &&
           f.probe->executed("lock_locked_by") == asked;
  }));
  auto const errors_before = errors.load();
  base::boot_clock_leads_by(*h.lock->trusted_until() - boot_clock::now() - 3s);
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::row_locked);
  auto const details = h.lock->loss_details();
  CAPTURE(details);
  CHECK(details.starts_with("another transaction has had its row locked for "));
  // MariaDB tells it only while a third session waits for the row.
  bool const told = details.find("session ") != std::string::npos;
  // The leap of the clock can end a question that is under way. Behind such a trouble it asks anew.
  bool const asks_anew = details.ends_with(" s") && errors > errors_before;
  CHECK((told || asks_anew || pair.engine == dialect::mysql));
  CHECK((told || asks_anew || details.ends_with("the database does not tell which")));
  std::lock_guard const hold(guard);
  CHECK(said == details);
}

PAIRS_CASE("C75: a file that another program's transaction had locked for too long: the loss says so",
           all<leases, on_sqlite>) {
  auto const m = f.manager();
  held_and_watched h(*m, 6s);
  open_transaction other(f);
  other.run("UPDATE rowlock_locks SET note = ''");
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::row_locked);
  CHECK(h.lock->loss_details().find("locked for ") != std::string::npos);
}

CONTRACT_CASE("C75: a database that says nothing: the loss says since when") {
  base::boot_clock_may_lead();
  std::atomic<bool> over{false};
  std::atomic<bool> asked{false};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_renew") return;
    asked = true;
    CHECK(eventually([&] { return over.load(); }));
    throw error(errc::unreachable, "cut off by the test");
  };
  held_and_watched h(*m, 30s);
  base::boot_clock_leads_by(10s);  // it is to be renewed
  REQUIRE(eventually([&] { return asked.load(); }));
  base::boot_clock_leads_by(*h.lock->trusted_until() - boot_clock::now() - 3s);
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::database_unreachable);
  CHECK(h.lock->loss_details().starts_with("the database has confirmed no renewal for "));
  over = true;
}

// The watchdog is kept from its work by another lock's hook, as if the process did not run.
CONTRACT_CASE("C75: suspended is said only of what was told too late, and not of a fixed lease") {
  base::boot_clock_may_lead();
  std::atomic<bool> over{false};
  std::atomic<bool> held_up{false};
  std::atomic<bool> renews{true};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind != event_kind::lost || e.name != "first") return;
    held_up = true;
    CHECK(eventually([&] { return over.load(); }));
  };
  auto const m = f.manager(o);
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_renew" && !renews) CHECK(eventually([&] { return over.load(); }));
  };
  auto const first = m->make_mutex("first", {.ttl = 10s, .renew = false}).acquire();
  auto const fixed = m->make_mutex("fixed", {.ttl = 1min, .renew = false}).acquire();
  held_and_watched h(*m, 1min);
  renews = false;
  base::boot_clock_leads_by(10s);
  REQUIRE(eventually([&] { return held_up.load(); }));
  base::boot_clock_leads_by(1min);
  REQUIRE_FALSE(h.lock->valid());
  REQUIRE_FALSE(fixed->valid());
  CHECK(h.lock->loss() == loss_reason::suspended);
  CHECK(fixed->loss() == loss_reason::expired);
  over = true;
  REQUIRE(h.told());
  CHECK(h.lock->loss() == loss_reason::suspended);
  CHECK(first->loss() == loss_reason::expired);
}

CONTRACT_CASE("what came too late stays lost: trust that has ended does not come back") {
  stranger other(f);
  std::atomic<bool> renewed{false};
  std::atomic<bool> trust_is_over{false};
  auto const m = f.manager();
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_renew" || renewed.exchange(true)) return;
    CHECK(eventually([&] { return trust_is_over.load(); }));  // then the reply comes
  };
  std::optional<held_and_watched> h;
  // On a busy machine it may be lost before a renewal was sent: then again.
  REQUIRE(eventually([&] {
    if (!h || (!renewed && !h->lock->valid())) h.emplace(*m, 6s);
    return renewed.load();
  }));
  REQUIRE(h->told());
  CHECK(h->lock->loss().has_value());
  REQUIRE(eventually([&] { return boot_clock::now() > *h->lock->trusted_until(); }));
  trust_is_over = true;
  CHECK(eventually([&] { return other.take("x"); }));
  CHECK_FALSE(h->lock->valid());
}

CONTRACT_CASE("a loss callback may release the handle that other threads look at") {
  std::atomic<bool> released{false};
  std::atomic<bool> looked{false};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_renew") throw error(errc::unreachable, "cut off by the test");
  };
  auto lock = m->make_mutex("x", {.ttl = 3s}).acquire().value();
  std::stop_callback const on_loss(lock.loss_token(), [&] {
    (void)lock.release();
    released = true;
  });
  {
    std::jthread const looker([&] {
      do {
        (void)lock.valid();
        (void)lock.trusted_until();
        looked = true;
        std::this_thread::yield();
      } while (!released);
    });
    REQUIRE(eventually([&] { return released.load(); }));
  }
  CHECK(looked);
  CHECK_FALSE(lock.valid());
}

namespace {

std::optional<errc> why_not(auto const& call) {
  try {
    (void)call();
    return std::nullopt;
  } catch (error const& e) {
    return e.reason();
  }
}

/// Keeps the thread that has just been granted `name` from its work, until that is lost; once.
class kept_too_long {
 public:
  kept_too_long(fixture& f, std::string name) : other_(f), name_(std::move(name)) {}
  void operator()(event const& e) {
    if (e.kind == event_kind::lost && e.name == name_) lost_ = true;
    if (e.kind != event_kind::taken || taken_.exchange(true)) return;
    first = {std::string(e.term)};
    CHECK(other_.take_over(name_));
    CHECK(eventually([&] { return lost_.load(); }));
    CHECK(other_.release(name_));
  }
  term_id first;

 private:
  stranger other_;
  std::string name_;
  std::atomic<bool> taken_{false};
  std::atomic<bool> lost_{false};
};

}  // namespace

CONTRACT_CASE(
    "B17: what was lost before its caller had it in hand is not handed out: who waits gets another") {
  kept_too_long late(f, "x");
  auto o = f.options;
  o.on_event = [&](event const& e) { late(e); };
  auto const m = f.manager(o);
  auto x = m->make_mutex("x", {.ttl = 9s});
  SUBCASE("who waits") {
    auto const got = x.try_acquire_for(60s);
    REQUIRE(got);
    CHECK(got->valid());
    CHECK(got->term() != late.first);
  }
  SUBCASE("who asks once") {
    CHECK(why_not([&] { return x.try_acquire(); }) == errc::unreachable);
    CHECK(x.try_acquire());
  }
}

CONTRACT_CASE("B17: what comes too late is given back without at_least: its caller never had it") {
  stranger other(f);
  std::atomic<bool> taken{false};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind == event_kind::taken && !taken.exchange(true))
      CHECK(eventually([&] { return boot_clock::now() >= e.trusted_until; }));
  };
  auto const m = f.manager(o);
  auto x = m->make_mutex("x", {.ttl = 4s, .renew = false, .at_least = 1h});
  CHECK(why_not([&] { return x.try_acquire(); }) == errc::unreachable);
  CHECK(eventually([&] { return other.take("x"); }));
}

LEASE_CASE("B17: of several that are taken at once none is handed out if one came too late") {
  kept_too_long late(f, "a");
  auto o = f.options;
  o.on_event = [&](event const& e) { late(e); };
  auto const m = f.manager(o);
  stranger other(f);
  SUBCASE("who waits") {
    auto const got = m->try_acquire_all_for({"a", "b"}, 60s, {.ttl = 9s});
    REQUIRE(got);
    CHECK(got->valid());
    CHECK((*got)[0].term() != late.first);
  }
  SUBCASE("who asks once") {
    CHECK(why_not([&] { return m->try_acquire_all({"a", "b"}, {.ttl = 9s}); }) == errc::unreachable);
    CHECK(other.take("b"));
  }
}

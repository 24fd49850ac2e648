// A database clock that went back (C5): a dead holder's name is free all the same, a living one's is not.
// That a clock was an hour ahead until now is written into the rows; tests/process/clocks.cpp moves real
// servers' clocks.
#include <thread>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::int64_t an_hour = 3'600'000;

/// As if the clock had been an hour ahead when the row was taken, for `ttl`, and had gone back since.
void clock_went_back(fixture& f, std::chrono::milliseconds ttl) {
  f.sql("UPDATE rowlock_locks SET acquired_at = " + in_ms(f, an_hour) +
        ", expires_at = " + in_ms(f, an_hour + ttl.count()) + " WHERE name = 'x'");
}

/// Renews a stranger's lock until the end of the scope. A renewal skips a row that a taker holds at that
/// moment: it is lost only if the term is another.
class keeps_renewing {
 public:
  explicit keeps_renewing(stranger& s)
      : thread_([&s](std::stop_token stop) {
          while (!stop.stop_requested()) {
            CHECK((s.renew("x") || s.has_still("x")));
            std::this_thread::sleep_for(50ms);  // as often as a holder of such a ttl would
          }
        }) {}

 private:
  std::jthread thread_;
};

reap_result run_reaper(fixture& f, std::chrono::milliseconds watch = 60s) {
  reaper_options o{.table_prefix = f.options.table_prefix, .schema = f.options.schema};
  o.watch = watch;
  return reaper(observed_by(f.source, f.probe), std::move(o)).run();
}

}  // namespace

CONTRACT_CASE("C5: a dead holder's name is free after its term was watched, though the clock went back") {
  stranger dead(f);
  REQUIRE(dead.take("x", 1s));
  clock_went_back(f, 1s);
  auto const m = f.manager();
  auto const start = boot_clock::now();
  auto const lock = m->make_mutex("x").try_acquire_for(30s);
  REQUIRE(lock);
  CHECK(boot_clock::now() - start >= 1020ms);
  CHECK_FALSE(dead.renew("x"));
}

CONTRACT_CASE("C5: who only tries, again and again, gets it, too") {
  stranger dead(f);
  REQUIRE(dead.take("x", 1s));
  clock_went_back(f, 1s);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const start = boot_clock::now();
  CHECK(eventually([&] { return static_cast<bool>(x.try_acquire()); }));
  CHECK(boot_clock::now() - start >= 1020ms);
}

CONTRACT_CASE("C5: a holder that renews keeps its lock, whatever the clock did") {
  stranger living(f);
  REQUIRE(living.take("x", 4s));
  clock_went_back(f, 4s);
  auto const m = f.manager();
  keeps_renewing const alive(living);
  CHECK_FALSE(m->make_mutex("x").try_acquire_for(9s));
}

CONTRACT_CASE("C57: an extension is no step of the clock: a fixed lease that was extended is not taken") {
  stranger living(f);
  REQUIRE(living.take("x", 300ms));
  backend::statement_book const book(f.source.implementation()->sql(), f.tables());
  REQUIRE(strategies::term_rows(book).extend(living.session(), {"x", living.read("x")->term}, 60s,
                                             boot_clock::now() + 30s));
  auto const m = f.manager();
  CHECK_FALSE(m->make_mutex("x").try_acquire_for(2s));
  clock_went_back(f, 60s);
  CHECK_FALSE(m->make_mutex("x").try_acquire_for(2s));
  CHECK(living.renew("x"));
}

CONTRACT_CASE("C5: a row that an older program took is not watched: how long it lasts is not known") {
  stranger old(f);
  auto const m = f.manager();
  SUBCASE("that wrote nothing") {
    REQUIRE(old.take("x", 300ms));
    f.sql("UPDATE rowlock_locks SET longest = NULL, longest_term = NULL");
  }
  SUBCASE("that left what stood there from another term") {
    REQUIRE(old.take("x", 300ms));
    f.sql("UPDATE rowlock_locks SET longest_term = 'of the one before'");
  }
  clock_went_back(f, 300ms);
  CHECK_FALSE(m->make_mutex("x").try_acquire_for(2s));
  CHECK(run_reaper(f).ended == 0);
  CHECK(old.renew("x"));
}

CONTRACT_CASE("C5: a row that can't be read is not watched: nobody knows what its maker meant") {
  stranger other(f);
  REQUIRE(other.take("x", 300ms));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 24 * 365 * 300 * an_hour));
  REQUIRE_FALSE(other.read("x")->unreadable.empty());
  auto const m = f.manager();
  CHECK_FALSE(m->make_mutex("x").try_acquire_for(2s));
  CHECK(run_reaper(f).ended == 0);
  CHECK(other.renew("x"));
}

CONTRACT_CASE("C5: a longest time that nobody can mean is not watched, and stops no reaper") {
  stranger other(f);
  REQUIRE(other.take("x", 300ms));
  clock_went_back(f, 300ms);
  for (std::string const longest : {"9223372036854775807", "-9223372036854775807", "0"}) {
    CAPTURE(longest);
    f.sql("UPDATE rowlock_locks SET longest = " + longest);
    CHECK(run_reaper(f).ended == 0);
    CHECK_FALSE(f.manager()->make_mutex("x").try_acquire_for(500ms));
  }
  CHECK(other.renew("x"));
}

CONTRACT_CASE("C5: the claim names term and renewals that were watched") {
  stranger other(f);
  REQUIRE(other.take("x", 3s));
  clock_went_back(f, 3s);
  auto const m = f.manager();
  std::optional<boot_time_point> renewed_at;
  auto const renew_once = [&] {
    if (renewed_at) return;
    CHECK(other.renew("x"));
    renewed_at = boot_clock::now();
  };
  // The claim names the term that it replaces. With unique_insert it begins a transaction, which who only
  // looks does not.
  f.probe->look = [&](std::string const& s, std::span<backend::value const> parameters) {
    if (pair.as_lease() && s == "lock_take" && !backend::is_null(parameters[12])) renew_once();
  };
  f.probe->before = [&](std::string const& s) {
    if (pair.strategy == strategy::unique_insert && s == "begin" && f.probe->executed("lock_read") > 3)
      renew_once();
  };
  auto const lock = m->make_mutex("x").try_acquire_for(30s);
  REQUIRE(lock);
  REQUIRE(renewed_at);
  CHECK(boot_clock::now() - *renewed_at >= 3060ms);  // it was watched anew
  CHECK(other.read("x")->term == lock->term());
}

CONTRACT_CASE("C5: at_least counts from now, if the clock went back since the take") {
  auto const m = f.manager();
  stranger other(f);
  auto lock = m->make_mutex("x", {.ttl = 30s, .at_least = 5s}).acquire();
  clock_went_back(f, 30s);
  CHECK(lock->release() == release_result::released);
  CHECK_FALSE(other.take("x"));
  CHECK(other.read("x")->holder.expires_in <= 5s);
  CHECK(eventually([&] { return other.take("x"); }));
}

CONTRACT_CASE("C5: at_least, too, ends when the clock goes back after the release") {
  auto const m = f.manager();
  { auto const lock = m->make_mutex("x", {.ttl = 30s, .at_least = 500ms}).acquire(); }
  clock_went_back(f, 500ms);
  auto const start = boot_clock::now();
  auto const next = m->make_mutex("x").try_acquire_for(30s);
  REQUIRE(next);
  CHECK(boot_clock::now() - start >= 510ms);
}

CONTRACT_CASE("C5: the reaper ends what a clock that went back has kept, once it has watched it") {
  stranger dead(f);
  REQUIRE(dead.take("x", 1s));
  auto const token = dead.token("x");
  clock_went_back(f, 1s);
  auto const r = run_reaper(f);
  CHECK(r.ended == 1);
  CHECK(r.duration >= 1020ms);
  CHECK(dead.sees_free("x"));
  CHECK_FALSE(dead.renew("x"));
  auto const m = f.manager();
  auto const lock = m->make_mutex("x").try_acquire();
  REQUIRE(lock);
  CHECK(lock->token().value > token);
}

CONTRACT_CASE("C5: the reaper leaves alone who renews, and what takes too long to watch") {
  stranger living(f);
  REQUIRE(living.take("x", 1s));
  clock_went_back(f, 1s);
  auto const unwatched = run_reaper(f, 500ms);
  CHECK(unwatched.ended == 0);
  CHECK(unwatched.left_observed == 1);
  f.probe->before = [&](std::string const& s) {
    if (s == "reap_end_lease" || s == "reap_end_insert") CHECK(living.renew("x"));
  };
  auto const r = run_reaper(f);
  CHECK(r.ended == 0);
  CHECK(r.skipped == 1);
  CHECK(living.renew("x"));
}

CONTRACT_CASE("C9: an extension never shortens") {
  auto const m = f.manager();
  stranger other(f);
  auto lock = m->make_mutex("x", {.ttl = 60s, .renew = false}).acquire();
  CHECK(lock->extend(1s));
  CHECK(other.read("x")->holder.expires_in > 40s);
  CHECK_FALSE(other.take("x"));
}

// Whoever watches a row does so for its ttl.
CONTRACT_CASE("C9: at_least is watched for what is left of it, not for the ttl that the lock had") {
  auto const m = f.manager();
  stranger other(f);
  {
    auto const lock =
        m->make_mutex("x", {.ttl = 300s, .at_least = 500ms, .takeover = takeover::observed}).acquire();
  }
  CHECK(other.read("x")->ttl <= 500ms);
  CHECK(m->make_mutex("x").try_acquire_for(30s));
}

CONTRACT_CASE("C33: an operator's revocation is not undone by the explicit owner that takes the lock again") {
  auto const m = f.manager();
  auto const lock = m->make_mutex("x", {.ttl = 6s, .renew = false, .owner = takes_over{"job-7"}}).acquire();
  REQUIRE(m->revoke("x", revoke_mode::at_renewal));
  SUBCASE("with another manager") {
    lock_manager other(f.source, f.options);
    CHECK_FALSE(other.make_mutex("x", {.owner = takes_over{"job-7"}}).try_acquire());
  }
  SUBCASE("where it is revoked between the look and the take") {
    f.sql("UPDATE rowlock_locks SET revoked = " +
          std::string(pair.engine == dialect::postgresql ? "false" : "0"));
    std::atomic<int> looks{0};
    f.probe->before = [&](std::string const& s) {
      if (s == pair.before_take() && looks > 0)
        f.sql("UPDATE rowlock_locks SET revoked = " +
              std::string(pair.engine == dialect::postgresql ? "true" : "1"));
    };
    f.probe->after = [&](std::string const& s) {
      if (s == "lock_read") ++looks;
    };
    auto const again = f.manager();
    CHECK_FALSE(again->make_mutex("x", {.owner = takes_over{"job-7"}}).try_acquire());
    f.probe->before = nullptr;
    f.probe->after = nullptr;
    CHECK(looks > 0);
  }
  CHECK(m->list().at(0).holder.revoked);
  // It ends as any that is not prolonged, and then it is anybody's.
  auto const next = m->make_mutex("x", {.owner = takes_over{"job-7"}}).try_acquire_for(30s);
  REQUIRE(next);
  CHECK_FALSE(m->list().at(0).holder.revoked);
}

INSERT_CASE("C33: revoked now, a name can be locked by a plain INSERT, and tokens rise") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").acquire();
  auto const token = lock->token().value;
  REQUIRE(m->revoke("x", revoke_mode::now));
  CHECK_FALSE(m->revoke("x", revoke_mode::now));
  f.sql(
      "INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) VALUES ('x', 'unique_insert', 'by "
      "hand', 0, " +
      in_ms(f, 60'000) + ")");
  f.sql("DELETE FROM rowlock_locks WHERE name = 'x'");
  CHECK(lock->release() == release_result::already_lost);
  CHECK(take_once(*m) > token);
}

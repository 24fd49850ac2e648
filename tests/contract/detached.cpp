// Locks that no handle keeps, and one name's state.
#include "base/boot_lead.hpp"
#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("detach: the lock stays, is not renewed, and any manager renews it or gives it back") {
  auto m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 60s, .note = "left"});
  auto held = x.acquire();
  REQUIRE(held);
  auto const left = held->detach();
  REQUIRE(left);
  CHECK(left->name == "x");
  CHECK(left->term == held->term());
  CHECK(left->token == held->token());
  CHECK(left->strategy == f.options.strategy);
  CHECK_FALSE(held->valid());
  CHECK_FALSE(held->loss());
  CHECK_FALSE(held->detach());
  CHECK(held->release() == release_result::released);
  CHECK_FALSE(held->extend(60s));
  CHECK(x.try_acquire().status() == acquire_status::busy);
  m.reset();  // gives back what it holds

  lock_manager other(f.source, f.options);
  CHECK(other.find("x")->held);
  CHECK(other.make_mutex("x").try_acquire().status() == acquire_status::busy);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 5'000));
  CHECK(other.renew(*left));
  CHECK(other.find("x")->holder.expires_in > 50s);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 500'000));
  CHECK(other.renew(*left));  // never shortens
  CHECK(other.find("x")->holder.expires_in > 400s);
  detached_lock const by_term{"x", left->term, {}, {}};
  SUBCASE("as it was left") { CHECK(other.release(*left)); }
  SUBCASE("by name and term alone") { CHECK(other.release(by_term)); }
  CHECK_FALSE(other.release(*left));
  CHECK_FALSE(other.release(by_term));
  CHECK_FALSE(other.renew(*left));
  CHECK(stranger(f).take("x"));
  CHECK_FALSE(other.release(by_term));
  CHECK_FALSE(stranger(f).sees_free("x"));
}

CONTRACT_CASE("detach: nothing of the manager's touches the lock any more") {
  auto m = f.manager();
  auto held = m->make_mutex("x", {.ttl = 5s}).acquire();
  auto const left = held->detach();
  REQUIRE(left);
  CHECK(eventually([&] { return stranger(f).take("x"); }));  // it was not renewed
  CHECK_FALSE(held->loss());
  CHECK_FALSE(m->renew(*left));
  CHECK_FALSE(m->release(*left));
  m.reset();
  CHECK_FALSE(stranger(f).sees_free("x"));
}

CONTRACT_CASE("detach: of what is lost there is nothing to leave") {
  auto m = f.manager();
  auto held = m->make_mutex("x", {.renew = false}).acquire();
  base::boot_clock_leads_by(30s);
  REQUIRE_FALSE(held->valid());
  CHECK_FALSE(held->detach());
  CHECK(held->loss() == loss_reason::expired);
}

CONTRACT_CASE("detach: a recursive lock that others share is not left behind") {
  auto m = f.manager();
  auto r = m->make_recursive_mutex("x");
  auto outer = r.acquire();
  {
    auto inner = r.acquire();
    CHECK_THROWS_AS((void)inner->detach(), error);
    CHECK(inner->valid());
  }
  CHECK(outer->valid());
  CHECK(outer->detach());
}

CONTRACT_CASE("renew: what an operator wants back, or is at its hard limit, is not renewed") {
  auto m = f.manager();
  auto const left = m->make_mutex("x").acquire()->detach();
  REQUIRE(m->revoke("x", revoke_mode::at_renewal));
  CHECK_FALSE(m->renew(*left));
  CHECK(m->release(*left));
  auto const limited = m->make_mutex("y", {.ttl = 4s, .hard_limit = 4s}).acquire()->detach();
  REQUIRE(limited);
  CHECK(eventually([&] { return !m->renew(*limited); }));
}

CONTRACT_CASE("renew: a row that a transaction has locked is told from a lost one") {
  auto m = f.manager();
  auto const left = m->make_mutex("x", {.ttl = 60s}).acquire()->detach();
  stranger other(f);
  auto& session = other.session();
  session.script(begin_of(f), boot_clock::now() + 30s);
  session.script("UPDATE " + f.tables().table("locks") + " SET note = 'locked' WHERE name = 'x'",
                 boot_clock::now() + 30s);
  try {
    (void)m->renew(*left);
    FAIL("renewed");
  } catch (error const& e) {
    CHECK(e.reason() == errc::row_locked);
    CHECK(e.retryable());
  }
  session.script("ROLLBACK", boot_clock::now() + 30s);
  CHECK(m->renew(*left));
}

ROW_LOCK_CASE("detach: a row lock ends with its session") {
  auto m = f.manager();
  auto held = m->make_mutex("x").acquire();
  try {
    (void)held->detach();
    FAIL("left behind");
  } catch (error const& e) {
    CHECK(e.reason() == errc::unsupported);
  }
  CHECK(held->valid());
}

EVERY_CASE("find: one name's state, as list has it") {
  auto m = f.manager();
  CHECK_FALSE(m->find("x"));
  auto held = m->make_mutex("x").acquire();
  auto const other = m->make_mutex("y").acquire();
  auto const seen = m->find("x");
  REQUIRE(seen);
  CHECK(seen->held);
  CHECK(seen->name == "x");
  CHECK(seen->holder.strategy == f.options.strategy);
  if (f.options.strategy != strategy::row_lock) {
    CHECK(seen->holder.token == held->token());
    CHECK(seen->holder.owner.same(held->owner()));
  }
  CHECK(held->release() == release_result::released);
  auto const idle = m->find("x");
  CHECK((!idle || !idle->held));
  CHECK(m->find("y")->held);
  CHECK_THROWS_AS((void)m->find(""), error);
}

CONTRACT_CASE("find: a row that can't be read is said to be one") {
  auto m = f.manager();
  auto const held = m->make_mutex("x").acquire();
  f.sql("UPDATE rowlock_locks SET takeover = 'by moonlight'");
  auto const seen = m->find("x");
  REQUIRE(seen);
  CHECK(seen->unknown.find("by moonlight") != std::string::npos);
}

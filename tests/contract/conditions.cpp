// What each condition of a statement is for, where no case of what is built of it notices that it is gone
// (tools/dev/mutate).
#include <map>
#include <stdexcept>
#include <utility>

#include "base/random_id.hpp"
#include "contract/permits.hpp"
#include "strategy/quorum_member.hpp"
#include "strategy/tokens.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using strategies::quorum_member;

constexpr bool leases_directly(running_pair const& p) { return leases(p) && direct(p); }
#define STATEMENT_CASE(text) PAIRS_CASE(text, leases_directly)

/// On a session of its own.
struct statements {
  explicit statements(fixture& f)
      : book(f.source.implementation()->sql(), f.tables()),
        session(f.source.implementation()->connect(soon())) {}
  static boot_time_point soon() { return boot_clock::now() + 30s; }

  backend::result run(std::string const& statement, std::vector<backend::value> const& with) {
    return session->execute(book.at(statement), with, soon());
  }
  /// What permit_look says for somebody with that intent: units that have not expired, of all, and intended.
  std::vector<std::int64_t> look(std::string const& name, backend::value const& intent) {
    auto const row = run("permit_look", {name, intent}).rows.at(0);
    return {backend::as_int(row.at(2)), backend::as_int(row.at(3)), backend::as_int(row.at(4))};
  }

  backend::statement_book book;
  std::unique_ptr<backend::connection> session;
};

/// What `ask` says of what `set` has made, both within half a second: what is to last for a second and a half
/// lasts then, and what is to be more than two seconds ahead still is.
template <class Set, class Ask>
auto at_once(Set const& set, Ask const& ask) {
  for (int tries = 0; tries < 60; ++tries) {
    auto const before = boot_clock::now();
    set();
    auto const said = ask();
    if (boot_clock::now() - before < 500ms) return said;
  }
  throw std::runtime_error("a statement takes half a second");
}

std::string yes(fixture& f) { return dialect_of(f) == dialect::postgresql ? "true" : "1"; }
std::string no(fixture& f) { return dialect_of(f) == dialect::postgresql ? "false" : "0"; }

void put_name(fixture& f, std::string const& name, std::string const& how, int limit = 10) {
  f.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at, permit_limit) VALUES ('" + name +
        "', '" + how + "', 5, " + in_ms(f, 0) + ", " + std::to_string(limit) + ")");
}

void put_permit(fixture& f, std::string const& name, std::string const& term, int units, std::int64_t ends) {
  f.sql(
      "INSERT INTO rowlock_permits (name, strategy, term, token, ttl, acquired_at, expires_at, units, told) "
      "VALUES ('" +
      name + "', 'semaphore', '" + term + "', 1, 30000, " + in_ms(f, 0) + ", " + in_ms(f, ends) + ", " +
      std::to_string(units) + ", 10)");
}

void intend(fixture& f, std::string const& name, std::string const& who, int units, std::int64_t until) {
  f.sql("UPDATE rowlock_locks SET intent_term = '" + who + "', intent_units = " + std::to_string(units) +
        ", intent_until = " + in_ms(f, until) + " WHERE name = '" + name + "'");
}

/// This database belongs to a quorum, and votes in epoch 'e'.
void make_member(fixture& f) {
  f.sql(
      "UPDATE rowlock_quorum SET quorum_id = 'q', epoch = 1, epoch_id = 'e', members = 'a b c', max_ttl = "
      "30000, votes = " +
      yes(f));
}

strategies::take_request vote(std::string const& epoch = "e") {
  strategies::take_request r{
      "x", {base::random_id()}, {"elsewhere", 1, "voter", 1}, 30s, 0ms, takeover::observed, true, ""};
  r.vote.epoch_id = epoch;
  return r;
}

bool votes_for(statements& s, strategies::take_request const& r,
               std::optional<strategies::superseded> const& old = {}) {
  boot_time_point sent_at;
  return std::holds_alternative<strategies::granted>(
      quorum_member(s.book).take(*s.session, r, old, statements::soon(), sent_at));
}

}  // namespace

STATEMENT_CASE(
    "permit_look: units of the name alone, of those that last, and what somebody else intends [C44]") {
  statements s(f);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  put_permit(f, "y", "of y", 7, 30'000);
  put_permit(f, "x", "over", 4, -200);
  auto const counted = at_once(
      [&] {
        f.sql("DELETE FROM rowlock_permits WHERE term = 'short'");
        put_permit(f, "x", "short", 2, 1500);
      },
      [&] { return s.look("x", nullptr); });
  CHECK(counted == std::vector<std::int64_t>{2, 6, 0});
  auto const intended = [&](std::int64_t until, backend::value const& who) {
    return at_once([&] { intend(f, "x", "theirs", 3, until); }, [&] { return s.look("x", who).at(2); });
  };
  CHECK(intended(1500, std::string("mine")) == 3);
  CHECK(intended(1500, std::string("theirs")) == 0);
  CHECK(intended(1500, nullptr) == 0);
  CHECK(intended(-500, std::string("mine")) == 0);
  CHECK(intended(2700, std::string("mine")) == 0);  // the clock went back
}

STATEMENT_CASE("permit_take: obeys an intent that lasts, of somebody else, and no other [C44]") {
  permit_taker taker(f, strategy::semaphore);
  put_name(f, "x", "semaphore");
  auto const takes = [&](std::int64_t until, std::string const& whose) {
    auto const got = at_once([&] { intend(f, "x", whose, 9, until); },
                             [&] {
                               auto wanted = permit_taker::of(2, 10);
                               wanted.intent = "mine";
                               bool const took = taker.take(wanted);
                               if (took) taker.release();
                               return took;
                             });
    return got;
  };
  CHECK_FALSE(takes(1500, "theirs"));
  CHECK(takes(-500, "theirs"));
  CHECK(takes(2700, "theirs"));
  CHECK(takes(1500, "mine"));
  // What others intend stays.
  intend(f, "x", "theirs", 1, 1500);
  REQUIRE(taker.take(permit_taker::of(1, 10)));
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE intent_until IS NOT NULL") == 1);
}

STATEMENT_CASE("permit_take: replaces what is there and not revoked, and nothing else") {
  permit_taker taker(f, strategy::semaphore);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  put_permit(f, "x", "theirs", 1, 30'000);
  put_permit(f, "y", "of y", 1, 30'000);
  auto const replaces = [&](std::string const& term) {
    auto wanted = permit_taker::of(2, 10);
    wanted.replaces = {term};
    wanted.replaced_units = 1;
    return taker.take(wanted);
  };
  CHECK_FALSE(replaces("nobody's"));
  CHECK_FALSE(replaces("of y"));
  f.sql("UPDATE rowlock_permits SET revoked = " + yes(f));
  CHECK_FALSE(replaces("theirs"));
  f.sql("UPDATE rowlock_permits SET revoked = " + no(f));
  CHECK(replaces("theirs"));
  CHECK(number(f, "SELECT count(*) FROM rowlock_permits WHERE name = 'x'") == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_permits WHERE name = 'y'") == 1);
}

STATEMENT_CASE("permit_intend: for the name, its strategy, and as long as was said") {
  statements s(f);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  auto const there = [&](std::string const& name, std::int64_t after) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = '" + name + "' AND intent_until > " +
                         in_ms(f, after));
  };
  auto const says = [&](std::string const& how, backend::value const& lasts) {
    return s.run("permit_intend", {std::string("x"), how, std::int64_t{3}, std::string("mine"), lasts})
        .affected;
  };
  CHECK(says("shared", std::int64_t{1900}) == 0);
  CHECK(at_once([&] { CHECK(says("semaphore", std::int64_t{1900}) == 1); },
                [&] { return there("x", 1000); }) == 1);
  CHECK(there("y", -3'600'000) == 0);
  // Without a line: in every other half second, until that is over, and not while somebody else intends.
  bool const for_half_a_second =
      at_once([&] { f.sql("UPDATE rowlock_locks SET intent_until = NULL"); },
              [&] { return says("semaphore", nullptr) == 0 || there("x", 501) == 0; });
  CHECK(for_half_a_second);
  auto const within_two_seconds = [&](std::string const& whose, std::int64_t until) {
    return eventually(
        [&] {
          return at_once([&] { intend(f, "x", whose, 1, until); },
                         [&] { return says("semaphore", nullptr); }) == 1;
        },
        2s);
  };
  CHECK(within_two_seconds("mine", 1500));
  CHECK_FALSE(within_two_seconds("theirs", 1500));
  CHECK(within_two_seconds("theirs", -500));
  CHECK(within_two_seconds("theirs", 2700));
}

STATEMENT_CASE("permit_purge: what has expired by the clock, and nothing else") {
  statements s(f);
  put_name(f, "x", "semaphore");
  auto const purged = [&](std::int64_t ends, std::string const& how) {
    return at_once(
        [&] {
          f.sql("DELETE FROM rowlock_permits");
          put_permit(f, "x", "its", 1, ends);
          f.sql("UPDATE rowlock_permits SET takeover = '" + how + "'");
        },
        [&] {
          auto const found = s.run("permit_expired", {std::string("x")}).rows.size();
          std::vector<strategies::name_and_term> const one{{"x", {"its"}}};
          auto const gone = strategies::permits::purge(*s.session, s.book, one, statements::soon());
          return std::pair(found, gone);
        });
  };
  using found_and_gone = std::pair<std::size_t, std::int64_t>;
  CHECK(purged(1500, "clock") == found_and_gone{0, 0});
  CHECK(purged(-500, "observed") == found_and_gone{0, 0});
  CHECK(purged(-500, "clock") == found_and_gone{1, 1});
}

STATEMENT_CASE("lock_renew: by name and term, what is not revoked, up to its ttl and its hard limit") {
  statements s(f);
  stranger other(f);
  REQUIRE(other.take("x", 30s));
  auto const term = other.read("x")->term.value;
  auto const renewed = [&](std::string const& name, std::string const& which) {
    return s.run("lock_renew", {R"([{"name":")" + name + R"(","term":")" + which + R"("}])"}).affected;
  };
  auto const lasts_longer_than = [&](std::int64_t ms) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND expires_at > " + in_ms(f, ms));
  };
  CHECK(renewed("x", base::random_id()) == 0);
  CHECK(renewed("y", term) == 0);
  f.sql("UPDATE rowlock_locks SET revoked = " + yes(f));
  CHECK(renewed("x", term) == 0);
  f.sql("UPDATE rowlock_locks SET revoked = " + no(f) + ", hard_until = " + in_ms(f, -500));
  CHECK(renewed("x", term) == 0);
  f.sql("UPDATE rowlock_locks SET hard_until = " + in_ms(f, 3'600'000));
  CHECK(renewed("x", term) == 1);
  CHECK(lasts_longer_than(31'000) == 0);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 500) + ", hard_until = " + in_ms(f, 20'000));
  CHECK(renewed("x", term) == 1);
  CHECK(lasts_longer_than(21'000) == 0);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 600'000) + ", hard_until = NULL");
  CHECK(renewed("x", term) == 1);
  CHECK(lasts_longer_than(500'000) == 1);
  auto const before_its_end =
      at_once([&] { f.sql("UPDATE rowlock_locks SET hard_until = " + in_ms(f, 1500)); },
              [&] { return renewed("x", term); });
  CHECK(before_its_end == 1);
}

STATEMENT_CASE("token_draw: above the last one, the floor, and the clock") {
  statements s(f);
  auto const draw = [&](std::string const& name) {
    return strategies::tokens(s.book).draw(*s.session, name, statements::soon()).value;
  };
  auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  CHECK(draw("x") > now - 60'000'000);
  f.sql("UPDATE rowlock_tokens SET token = 5000000000000000 WHERE name = 'x'");
  CHECK(draw("x") == 5'000'000'000'000'001);
  f.sql("UPDATE rowlock_meta SET token_floor = 6000000000000000");
  CHECK(draw("x") == 6'000'000'000'000'001);
  CHECK(draw("y") == 6'000'000'000'000'001);
}

STATEMENT_CASE("quorum_read: the highest token is the floor or a row's, and is told if it is asked for") {
  statements s(f);
  put_name(f, "x", "quorum");
  auto const highest = [&](bool asked) {
    return quorum_member::read(*s.session, s.book, asked, statements::soon()).highest.value;
  };
  f.sql("UPDATE rowlock_meta SET token_floor = 7");
  CHECK(highest(true) == 7);
  f.sql("UPDATE rowlock_locks SET token = 9");
  CHECK(highest(true) == 9);
  CHECK(highest(false) == 0);
}

STATEMENT_CASE("quorum_confirm: by name, term, strategy and epoch, while this database votes") {
  statements s(f);
  make_member(f);
  put_name(f, "x", "quorum");
  auto const mine = vote();
  REQUIRE(votes_for(s, mine));
  auto const confirms = [&](std::string const& term, std::string const& epoch,
                            std::chrono::milliseconds lasts = 30s, std::int64_t token = 1) {
    return quorum_member::confirm(*s.session, s.book, {"x", {term}}, {token}, epoch, lasts,
                                  statements::soon());
  };
  auto const& term = mine.term.value;
  auto const lasts_longer_than = [&](std::int64_t ms) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND expires_at > " + in_ms(f, ms));
  };
  CHECK(confirms(term, "e"));
  CHECK_FALSE(confirms(base::random_id(), "e"));
  CHECK_FALSE(confirms(term, "f"));
  f.sql("UPDATE rowlock_quorum SET votes = " + no(f));
  CHECK_FALSE(confirms(term, "e"));
  f.sql("UPDATE rowlock_quorum SET votes = " + yes(f));
  f.sql("UPDATE rowlock_locks SET strategy = 'lease'");
  CHECK_FALSE(confirms(term, "e"));
  f.sql("UPDATE rowlock_locks SET strategy = 'quorum', revoked = " + yes(f));
  CHECK_FALSE(confirms(term, "e"));
  f.sql("UPDATE rowlock_locks SET revoked = " + no(f));
  // It never shortens, never lowers, and never passes the hard limit.
  CHECK(confirms(term, "e", 600s, 8'000'000'000'000'000));
  CHECK(lasts_longer_than(500'000) == 1);
  CHECK(confirms(term, "e", 1s, 1));
  CHECK(lasts_longer_than(400'000) == 1);
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == 8'000'000'000'000'000);
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE ttl >= 600000 AND longest >= 600000") == 1);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 500) + ", hard_until = " + in_ms(f, 20'000));
  CHECK(confirms(term, "e", 600s));
  CHECK(lasts_longer_than(21'000) == 0);
  f.sql("UPDATE rowlock_locks SET hard_until = " + in_ms(f, 3'600'000));
  CHECK(confirms(term, "e", 30s));
  CHECK(lasts_longer_than(3'000'000) == 0);
}

STATEMENT_CASE("quorum_take: a free row, what at_least has left and is over, or what was watched") {
  statements s(f);
  make_member(f);
  put_name(f, "x", "quorum");
  auto const set_free = [&] {
    f.sql("UPDATE rowlock_locks SET term = NULL, revoked = " + no(f) + ", takeover = 'clock', renewals = 0");
  };
  CHECK_FALSE([&] {
    try {
      return votes_for(s, vote("f"));
    } catch (error const& e) {
      return e.reason() != errc::not_voting;
    }
  }());
  REQUIRE(votes_for(s, vote()));
  CHECK_FALSE(votes_for(s, vote()));
  // The clock alone decides of nothing but of what at_least has left.
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -500));
  CHECK_FALSE(votes_for(s, vote()));
  CHECK_FALSE(
      at_once([&] { f.sql("UPDATE rowlock_locks SET takeover = 'clock', expires_at = " + in_ms(f, 1500)); },
              [&] { return votes_for(s, vote()); }));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -500));
  CHECK(votes_for(s, vote()));
  // A free one whatever its clock.
  set_free();
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 3'600'000));
  auto const mine = vote();
  CHECK(votes_for(s, mine));
  // What was watched, and not renewed since.
  CHECK_FALSE(votes_for(s, vote(), strategies::superseded{{base::random_id()}, 0}));
  CHECK_FALSE(votes_for(s, vote(), strategies::superseded{mine.term, 1}));
  CHECK(votes_for(s, vote(), strategies::superseded{mine.term, 0}));
  // Not where an operator has sent this taker away; others may.
  set_free();
  f.sql("UPDATE rowlock_locks SET revoked = " + yes(f) + ", longest_term = 'former'");
  auto sent_away = vote();
  sent_away.vote.former = "former";
  CHECK_FALSE(votes_for(s, sent_away));
  auto other = vote();
  other.vote.former = "another";
  CHECK(votes_for(s, other));
  set_free();
  f.sql("UPDATE rowlock_locks SET longest_term = 'former'");
  CHECK(votes_for(s, sent_away));
}

STATEMENT_CASE(
    "quorum_take: the token is above the row's, what others have granted, the floor and the entry") {
  statements s(f);
  make_member(f);
  put_name(f, "x", "quorum");
  auto const token = [&](std::optional<std::int64_t> others) {
    f.sql("UPDATE rowlock_locks SET term = NULL");
    auto r = vote();
    r.vote.token = others;
    REQUIRE(votes_for(s, r));
    return number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'");
  };
  CHECK(token(5'000'000'000'000'000) == 5'000'000'000'000'000);
  CHECK(token({}) == 5'000'000'000'000'001);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('a', 1), ('x', 7000000000000000)");
  f.sql("UPDATE rowlock_meta SET token_floor = 6000000000000000");
  f.sql("UPDATE rowlock_locks SET token = 0");
  CHECK(token({}) == 7'000'000'000'000'001);
  f.sql("UPDATE rowlock_meta SET token_floor = 8000000000000000");
  f.sql("UPDATE rowlock_locks SET token = 0");
  CHECK(token({}) == 8'000'000'000'000'001);
  f.sql("UPDATE rowlock_locks SET token = 1");
  auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  CHECK(token({}) > now - 60'000'000);
}

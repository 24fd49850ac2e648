// The conditions of lib/sql/<dialect>/quorum.sql.
#include <map>
#include <optional>

#include "contract/conditions.hpp"
#include "strategy/quorum_member.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using strategies::quorum_member;

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
  CHECK(lasts(f, 500'000));
  CHECK(confirms(term, "e", 1s, 1));
  CHECK(lasts(f, 400'000));
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == 8'000'000'000'000'000);
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE ttl >= 600000 AND longest >= 600000") == 1);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 500) + ", hard_until = " + in_ms(f, 20'000));
  CHECK(confirms(term, "e", 600s));
  CHECK_FALSE(lasts(f, 21'000));
  f.sql("UPDATE rowlock_locks SET hard_until = " + in_ms(f, 3'600'000));
  CHECK(confirms(term, "e", 30s));
  CHECK_FALSE(lasts(f, 3'000'000));
}

STATEMENT_CASE("quorum_take: a free row, what at_least has left and is over, or what was watched") {
  statements s(f);
  make_member(f);
  put_name(f, "x", "quorum");
  auto const set_free = [&] {
    f.sql("UPDATE rowlock_locks SET term = NULL, revoked = " + no(f) + ", takeover = 'clock', renewals = 0");
  };
  auto const does_not_vote = [&](std::string const& epoch) {
    try {
      (void)votes_for(s, vote(epoch));
      return false;
    } catch (error const& e) {
      return e.reason() == errc::not_voting;
    }
  };
  CHECK(does_not_vote("f"));
  f.sql("UPDATE rowlock_quorum SET votes = " + no(f));
  CHECK(does_not_vote("e"));
  f.sql("UPDATE rowlock_quorum SET votes = " + yes(f));
  put_name(f, "z", "quorum");
  f.sql("UPDATE rowlock_locks SET strategy = 'lease' WHERE name = 'x'");
  CHECK(reason([&] { (void)votes_for(s, vote()); }) == errc::strategy_mismatch);
  f.sql("UPDATE rowlock_locks SET strategy = 'quorum'");
  // For its ttl, or up to its hard limit.
  for (auto const& [limit, lasts_for] :
       std::map<std::chrono::milliseconds, std::int64_t>{{10s, 10'000}, {60s, 30'000}, {0ms, 30'000}}) {
    set_free();
    auto r = vote();
    r.hard_limit = limit;
    REQUIRE(votes_for(s, r));
    CHECK(lasts(f, lasts_for - 5'000));
    CHECK_FALSE(lasts(f, lasts_for));
  }
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'z' AND token = 5") == 1);
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
  auto const now = microseconds_now();
  CHECK(token({}) > now - 60'000'000);
}

STATEMENT_CASE("quorum_write, quorum_read: if the epoch is still that one") {
  statements s(f);
  auto const writes = [&](std::string const& former, std::string const& epoch) {
    return quorum_member::write(*s.session, s.book, former, {"q", 1, epoch, {"a", "b"}, 30s, true},
                                statements::soon());
  };
  CHECK_FALSE(writes("e", "f"));
  CHECK(writes("", "e"));
  CHECK_FALSE(writes("", "f"));
  CHECK_FALSE(writes("d", "f"));
  CHECK(writes("e", "f"));
  CHECK(quorum_member::read(*s.session, s.book, false, statements::soon()).record.epoch_id == "f");
}

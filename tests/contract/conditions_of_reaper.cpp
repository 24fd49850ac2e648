// The conditions of lib/sql/<dialect>/reap.sql.
#include <optional>
#include <vector>

#include "contract/conditions.hpp"
#include "strategy/reaping.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A row of rowlock_locks, and what the reaper does about it whose `idle` is an hour.
struct row {
  std::string strategy;
  std::string term;       ///< empty: free
  std::int64_t expires;   ///< in so many milliseconds
  bool goes;              ///< it is due, and deleted
  std::string more = "";  ///< further columns
};

constexpr std::int64_t a_bit = 1500;
constexpr std::int64_t over = -500;

std::vector<row> all_rows() {
  std::vector<row> all;
  for (std::string const how : {"lease", "once", "quorum"}) {
    all.push_back({how, "", -hour + a_bit, false});
    all.push_back({how, "", -hour + over, true});
    all.push_back({how, "t", -hour + a_bit, false});
    all.push_back({how, "t", -hour + over, true});
    all.push_back({how, "t", -2 * hour, false, ", takeover = 'observed'"});
  }
  all.push_back({"unique_insert", "", hour, true});
  all.push_back({"unique_insert", "t", a_bit, false});
  all.push_back({"unique_insert", "t", over, true});
  all.push_back({"unique_insert", "t", over, false, ", takeover = 'observed'"});
  all.push_back({"row_lock", "", -hour + a_bit, false});
  all.push_back({"row_lock", "", -hour + over, true});
  all.push_back({"row_lock", "t", -2 * hour, false});
  for (std::string const how : {"shared", "semaphore"}) {
    all.push_back({how, "", -hour + a_bit, false});
    all.push_back({how, "", -hour + over, true});
    all.push_back({how, "", -2 * hour, false, ", permit_limit = 3"});
  }
  // More than a day ahead of the clock.
  all.push_back(
      {"lease", "", -2 * hour, false, ", token = " + std::to_string(microseconds_now() + 25 * token_hour)});
  all.push_back(
      {"lease", "", -2 * hour, true, ", token = " + std::to_string(microseconds_now() + 23 * token_hour)});
  for (auto const* how : {"unique_insert", "row_lock", "semaphore"})
    all.push_back(
        {how, "", -2 * hour, false, ", token = " + std::to_string(microseconds_now() + 25 * token_hour)});
  return all;
}

void put(fixture& f, row const& r) {
  f.sql("DELETE FROM rowlock_locks WHERE name <> 'rowlock.reaper'");
  put_name(f, "x", r.strategy);
  put_name(f, "z", "lease");  // it is young, and stays
  f.sql("UPDATE rowlock_locks SET permit_limit = NULL, takeover = 'clock'");
  f.sql("UPDATE rowlock_locks SET term = " + (r.term.empty() ? "NULL" : "'" + r.term + "'") +
        ", expires_at = " + in_ms(f, r.expires) + r.more + " WHERE name = 'x'");
}

std::int64_t all_of(reap_counts const& c) { return c.unique_insert + c.lease + c.row_lock + c.permit_names; }

/// Whether x goes by the DELETE alone, where that is a statement of its own, which looks at all of it again:
/// nothing keeps what was found before.
std::optional<bool> goes_by_delete_alone(fixture& f, statements& s,
                                         std::string const& statement = "reap_locks_delete") {
  if (dialect_of(f) != dialect::mysql) return std::nullopt;
  return s.meets(statement, {text(R"(["x"])"), hour}) == 1;
}

}  // namespace

STATEMENT_CASE("reap_locks_look, reap_locks_delete: what of each strategy is due, by each of them") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  strategies::page const first_page{strategies::reaped_table::locks, "", 100};
  strategies::page_look up_to_z;
  up_to_z.last = "z";
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(microseconds_now() + 30 * token_hour));
  for (auto const& r : all_rows()) {
    CAPTURE(r.strategy);
    CAPTURE(r.term);
    CAPTURE(r.expires);
    CAPTURE(r.more);
    auto const due =
        at_once([&] { put(f, r); },
                [&] { return all_of(reaping.look(*s.session, first_page, statements::soon()).due); });
    CHECK((due == 1) == r.goes);
    auto const removed =
        at_once([&] { put(f, r); },
                [&] { return all_of(reaping.remove(*s.session, first_page, up_to_z, statements::soon())); });
    CHECK((removed == 1) == r.goes);
    CHECK(rows(f, "name = 'x'") == (r.goes ? 0 : 1));
    CHECK(rows(f, "name = 'z'") == 1);
    auto const alone = at_once([&] { put(f, r); }, [&] { return goes_by_delete_alone(f, s); });
    CHECK(alone.value_or(r.goes) == r.goes);
  }
}

STATEMENT_CASE(
    "reap_locks_look, reap_locks_delete: permits keep their name, the floor and the page what is beyond") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  row const old{"lease", "", -2 * hour, true};
  auto const removed = [&](std::string const& after, std::string const& last, int size = 100) {
    strategies::page_look seen;
    seen.last = last;
    return all_of(
        reaping.remove(*s.session, {strategies::reaped_table::locks, after, size}, seen, statements::soon()));
  };
  put(f, old);
  f.sql("UPDATE rowlock_meta SET token_floor = 4");  // the row's token is 5
  CHECK(removed("", "z") == 0);
  CHECK_FALSE(goes_by_delete_alone(f, s).value_or(false));
  f.sql("UPDATE rowlock_meta SET token_floor = 5");
  CHECK(removed("x", "z") == 0);
  CHECK(removed("", "w") == 0);
  CHECK(reaping.look(*s.session, {strategies::reaped_table::locks, "w", 100}, statements::soon()).examined ==
        2);
  CHECK(reaping.look(*s.session, {strategies::reaped_table::locks, "x", 100}, statements::soon()).examined ==
        1);
  CHECK(removed("", "x") == 1);
  // Who is more than a day ahead of the clock stays.
  auto const ahead = [&](std::int64_t by) {
    return at_once(
        [&] {
          put(f, old);
          f.sql("UPDATE rowlock_meta SET token_floor = 9000000000000000");
          f.sql("UPDATE rowlock_locks SET token = " +
                std::to_string(microseconds_now() + 24 * token_hour + by) + " WHERE name = 'x'");
        },
        [&] {
          auto const seen =
              reaping.look(*s.session, {strategies::reaped_table::locks, "w", 100}, statements::soon());
          auto const alone = goes_by_delete_alone(f, s);
          auto const gone = alone.value_or(removed("", "x") == 1);
          CHECK(gone == (all_of(seen.due) == 1));
          CHECK(gone == (seen.left_ahead == 0));
          return !gone;
        });
  };
  CHECK(ahead(1'500'000));
  CHECK_FALSE(ahead(-500'000));
  auto const removed_ahead = [&](std::int64_t by) {
    return at_once(
        [&] {
          put(f, old);
          f.sql("UPDATE rowlock_locks SET token = " +
                std::to_string(microseconds_now() + 24 * token_hour + by) + " WHERE name = 'x'");
        },
        [&] { return removed("", "x"); });
  };
  CHECK(removed_ahead(1'500'000) == 0);
  CHECK(removed_ahead(-500'000) == 1);
  f.sql("UPDATE rowlock_meta SET token_floor = 5");
  put(f, old);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -2 * hour));
  CHECK(removed("", "z", 1) == 1);
  CHECK(rows(f, "name = 'z'") == 1);
  // A negative idle time makes nothing due that somebody has.
  put(f, {"lease", "t", 1500, false});
  strategies::page_look seen;
  seen.last = "x";
  CHECK(all_of(strategies::reaping(s.book, -1h)
                   .remove(*s.session, {strategies::reaped_table::locks, "", 100}, seen,
                           statements::soon())) == 0);

  put(f, {"semaphore", "", -2 * hour, true});
  f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
  CHECK(
      all_of(reaping.look(*s.session, {strategies::reaped_table::locks, "", 100}, statements::soon()).due) ==
      0);
  CHECK(removed("", "z") == 0);
  CHECK_FALSE(goes_by_delete_alone(f, s).value_or(false));
  f.sql("UPDATE rowlock_permits SET name = 'y'");
  CHECK(
      all_of(reaping.look(*s.session, {strategies::reaped_table::locks, "", 100}, statements::soon()).due) ==
      1);
  CHECK(goes_by_delete_alone(f, s).value_or(true));
  put(f, {"semaphore", "", -2 * hour, true});
  CHECK(removed("", "z") == 1);
}

STATEMENT_CASE("reap_locks_look: what is left is told apart, and the highest token is of what is due") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  strategies::page const first_page{strategies::reaped_table::locks, "", 100};
  auto const look = [&](row const& r) {
    put(f, r);
    return reaping.look(*s.session, first_page, statements::soon());
  };
  CHECK(look({"lease", "t", -2 * hour, false, ", takeover = 'observed'"}).left_observed == 1);
  CHECK(look({"lease", "", -2 * hour, true}).left_observed == 0);
  CHECK(look({"lease", "t", -2 * hour, true}).left_observed == 0);
  CHECK(look({"lease", "", -2 * hour, true, ", takeover = 'observed'"}).left_observed == 0);
  CHECK(look({"lease", "t", hour, false, ", takeover = 'observed'"}).left_observed == 0);
  std::string const ahead = ", token = " + std::to_string(microseconds_now() + 25 * token_hour);
  CHECK(look({"lease", "", -2 * hour, false, ahead}).left_ahead == 1);
  CHECK(look({"lease", "", -2 * hour, false, ahead}).highest_token == 0);
  CHECK(look({"lease", "t", hour, false, ahead}).left_ahead == 0);
  CHECK(look({"lease", "", -2 * hour, true}).left_ahead == 0);
  CHECK(look({"lease", "", -2 * hour, true, ", token = 9"}).highest_token == 9);
  CHECK(look({"lease", "", hour, false, ", token = 9"}).highest_token == 0);
  CHECK(look({"lease", "", hour, false}).examined >= 2);
}

STATEMENT_CASE(
    "reap_kept, reap_end_lease, reap_end_insert: terms that a clock which went back keeps, as they were "
    "watched") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  strategies::page const first_page{strategies::reaped_table::locks, "", 100};
  strategies::page_look up_to_z;
  up_to_z.last = "z";
  std::string const mine = ", renewals = 3, longest_term = 't', longest = ";
  auto const kept = [&](row const& r) {
    return at_once([&] { put(f, r); },
                   [&] {
                     auto const seen = reaping.look(*s.session, first_page, statements::soon()).kept;
                     auto const told = s.meets("reap_kept", {text(""), text("z"), std::int64_t{100}});
                     CHECK(seen == told);
                     return told == 1;
                   });
  };
  for (std::string const how : {"lease", "once", "quorum", "unique_insert"}) {
    CAPTURE(how);
    auto const ended = [&](row const& r, std::string const& name = "x", std::string const& term = "t",
                           std::int64_t renewals = 3) {
      return at_once([&] { put(f, r); },
                     [&] {
                       auto const which = how == "unique_insert" ? strategy::unique_insert : strategy::lease;
                       return reaping.end(*s.session,
                                          {name, which, {term}, renewals, 30s, 0, boot_clock::now()},
                                          statements::soon());
                     });
    };
    auto const both = [&](row const& r) {
      bool const is_kept = kept(r);
      CHECK(ended(r) == is_kept);
      return is_kept;
    };
    CHECK(both({how, "t", 30'000 + a_bit, false, mine + "30000"}));
    CHECK_FALSE(both({how, "t", 30'000 + over, false, mine + "30000"}));
    CHECK_FALSE(both({how, "t", hour, false, mine + "30000, takeover = 'observed'"}));
    CHECK_FALSE(both({how, "t", hour, false, ", renewals = 3, longest_term = 'former', longest = 30000"}));
    CHECK_FALSE(both({how, "t", hour, false, mine + "0"}));  // that nobody can mean
    CHECK_FALSE(both({how, "t", hour, false, mine + "9223372036854775807"}));
    row const good{how, "t", hour, false, mine + "30000"};
    CHECK_FALSE(ended(good, "z"));
    CHECK_FALSE(ended(good, "x", "another"));
    CHECK_FALSE(ended(good, "x", "t", 2));
    row const of_another{how == "lease" ? "unique_insert" : "row_lock", "t", hour, false, mine + "30000"};
    CHECK_FALSE(ended(of_another));
    put(f, good);
    CHECK(s.meets("reap_kept", {text("x"), text("z"), std::int64_t{100}}) == 0);
    CHECK(s.meets("reap_kept", {text(""), text("w"), std::int64_t{100}}) == 0);
    CHECK(s.meets("reap_kept", {text("w"), text("x"), std::int64_t{100}}) == 1);
  }
}

STATEMENT_CASE("reap_permits_look, reap_tokens_look, reap_tokens_delete: what has been idle for an hour") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  auto const due_permits = [&](std::int64_t expires, std::string const& takeover) {
    return at_once(
        [&] {
          f.sql("DELETE FROM rowlock_permits");
          f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
          f.sql("UPDATE rowlock_permits SET takeover = '" + takeover +
                "', expires_at = " + in_ms(f, expires));
        },
        [&] {
          return reaping.look_at_permits(*s.session, {"", {""}}, 100, statements::soon()).due.size();
        });
  };
  CHECK(due_permits(-hour + over, "clock") == 1);
  CHECK(due_permits(-hour + a_bit, "clock") == 0);
  CHECK(due_permits(-2 * hour, "observed") == 0);
  // Behind that one, in the order of names and terms.
  auto const behind = [&](std::string const& name, std::string const& term) {
    return reaping.look_at_permits(*s.session, {name, {term}}, 100, statements::soon()).examined;
  };
  CHECK(behind("x", "a") == 1);
  CHECK(behind("x", "theirs") == 0);
  CHECK(behind("w", "z") == 1);
  CHECK(behind("y", "") == 0);

  strategies::page const first_page{strategies::reaped_table::tokens, "", 100};
  auto const put_token = [&](std::int64_t age_ms) {
    f.sql("DELETE FROM rowlock_tokens");
    auto const token = microseconds_now() - age_ms * 1000;
    f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('x', " + std::to_string(token) + ")");
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(token));
  };
  auto const removed = [&](std::string const& after = "", std::string const& last = "z", int size = 100) {
    strategies::page_look seen;
    seen.last = last;
    return reaping
        .remove(*s.session, {strategies::reaped_table::tokens, after, size}, seen, statements::soon())
        .tokens;
  };
  auto const due = [&](std::int64_t age_ms) {
    auto const seen = at_once([&] { put_token(age_ms); },
                              [&] { return reaping.look(*s.session, first_page, statements::soon()); });
    auto const gone = at_once([&] { put_token(age_ms); }, [&] { return removed(); });
    CHECK(seen.due.tokens == gone);
    auto const alone =
        at_once([&] { put_token(age_ms); }, [&] { return goes_by_delete_alone(f, s, "reap_tokens_delete"); });
    CHECK(alone.value_or(gone == 1) == (gone == 1));
    CHECK((seen.highest_token > 0) == (gone == 1));
    return gone == 1;
  };
  CHECK(due(hour - over));
  CHECK_FALSE(due(hour - a_bit));
  put_token(2 * hour);
  f.sql("UPDATE rowlock_meta SET token_floor = token_floor - 1");
  CHECK(removed() == 0);
  CHECK_FALSE(goes_by_delete_alone(f, s, "reap_tokens_delete").value_or(false));
  put_token(2 * hour);
  CHECK(removed("x") == 0);
  CHECK(removed("", "w") == 0);
  CHECK(reaping.look(*s.session, {strategies::reaped_table::tokens, "x", 100}, statements::soon()).examined ==
        0);
  CHECK(removed("", "x") == 1);
  put_token(2 * hour);
  f.sql("INSERT INTO rowlock_tokens (name, token) SELECT 'y', token FROM rowlock_tokens");
  CHECK(removed("", "z", 1) == 1);
  CHECK(removed() == 1);
}

STATEMENT_CASE(
    "reap_raise_floor, reap_floor, quorum_raise: never lower; reap_record, reap_last: the last run") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  f.sql("UPDATE rowlock_meta SET token_floor = 7");
  reaping.raise_floor(*s.session, 6, statements::soon());
  CHECK(floor_of(f) == 7);
  reaping.raise_floor(*s.session, 8, statements::soon());
  CHECK(floor_of(f) == 8);
  CHECK(reaping.floor(*s.session, statements::soon()) == 8);
  CHECK_FALSE(reaping.last(*s.session, statements::soon()));
  reaping.record(*s.session, 3s, {"here", 7, "p", 1}, "{}", statements::soon());
  auto const last = reaping.last(*s.session, statements::soon());
  REQUIRE(last);
  CHECK(last->host == "here");
  put_name(f, "x", "quorum");  // 5
  put_name(f, "y", "lease");
  auto const raised_to = [&](std::int64_t token) {
    s.run("quorum_raise", {token});
    CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'y'") == 5);
    return number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'");
  };
  CHECK(raised_to(4) == 5);
  CHECK(raised_to(6) == 6);
}

STATEMENT_CASE(
    "reap_locks_delete, reap_tokens_delete: what may not go takes no place among those that may; what is "
    "locked is left and not waited for, and the others go") {
  statements s(f);
  strategies::reaping const reaping(s.book, 1h);
  auto const removed = [&](strategies::reaped_table table, std::string const& after, int size) {
    strategies::page_look seen;
    seen.last = "z";
    auto const gone = reaping.remove(*s.session, {table, after, size}, seen, statements::soon());
    return table == strategies::reaped_table::locks ? all_of(gone) : gone.tokens;
  };
  auto const locks = strategies::reaped_table::locks;
  auto const tokens = strategies::reaped_table::tokens;
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(microseconds_now() + 30 * token_hour));
  /// x is due; before it comes w, which is that one.
  auto const behind = [&](row const& r) {
    put(f, r);
    f.sql("UPDATE rowlock_locks SET name = 'w' WHERE name = 'x'");
    put_name(f, "x", "lease");
    f.sql("UPDATE rowlock_locks SET permit_limit = NULL, expires_at = " + in_ms(f, -2 * hour) +
          " WHERE name = 'x'");
  };
  for (auto const& r : all_rows()) {
    if (r.goes) continue;
    CAPTURE(r.strategy);
    CAPTURE(r.term);
    CAPTURE(r.more);
    CHECK(at_once([&] { behind(r); }, [&] { return removed(locks, "", 1); }) == 1);
    CHECK(rows(f, "name = 'w'") == 1);
    CHECK(rows(f, "name = 'x'") == 0);
  }
  row const old{"lease", "", -2 * hour, true};
  auto const just_ahead = at_once(
      [&] {
        behind(old);
        f.sql("UPDATE rowlock_locks SET token = " +
              std::to_string(microseconds_now() + 24 * token_hour + 1'500'000) + " WHERE name = 'w'");
      },
      [&] { return removed(locks, "", 1); });
  CHECK(just_ahead == 1);
  behind(old);
  CHECK(removed(locks, "w", 1) == 1);
  CHECK(rows(f, "name = 'w'") == 1);
  behind(old);
  f.sql("UPDATE rowlock_meta SET token_floor = 5");
  f.sql("UPDATE rowlock_locks SET token = 6 WHERE name = 'w'");
  CHECK(removed(locks, "", 1) == 1);
  CHECK(rows(f, "name = 'w'") == 1);
  behind({"semaphore", "", -2 * hour, true});
  f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
  f.sql("UPDATE rowlock_permits SET name = 'w'");
  CHECK(removed(locks, "", 1) == 1);
  CHECK(rows(f, "name = 'w'") == 1);
  behind(old);
  CHECK(removed(locks, "", 1) == 1);
  CHECK(rows(f, "name IN ('w', 'x')") == 1);

  auto const both_tokens = [&](std::int64_t token_of_w) {
    auto const old_token = microseconds_now() - 2 * token_hour;
    f.sql("DELETE FROM rowlock_tokens");
    f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('w', " + std::to_string(old_token + token_of_w) +
          "), ('x', " + std::to_string(old_token) + ")");
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(old_token));
  };
  both_tokens(1);  // above the floor
  CHECK(removed(tokens, "", 1) == 1);
  auto const young = at_once(
      [&] {
        both_tokens(token_hour + a_bit * 1000);
        f.sql("UPDATE rowlock_meta SET token_floor = token_floor + " + std::to_string(3 * token_hour));
      },
      [&] { return removed(tokens, "", 1); });
  CHECK(young == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens WHERE name = 'w'") == 1);
  both_tokens(0);
  CHECK(removed(tokens, "w", 1) == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens WHERE name = 'w'") == 1);
  both_tokens(0);
  CHECK(removed(tokens, "", 1) == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens") == 1);

  if (!on_a_server(pair)) return;
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(microseconds_now()));
  behind(old);
  both_tokens(0);
  statements another(f);
  another.session->script(begin_of(f), statements::soon());
  auto const lock = [&](std::string const& sql) {
    another.session->script(f.tables().render(sql), statements::soon());
  };
  lock("UPDATE rowlock_locks SET note = 'theirs' WHERE name = 'w'");
  lock("UPDATE rowlock_tokens SET token = token - 1 WHERE name = 'w'");
  CHECK(removed(locks, "", 100) == 1);
  CHECK(removed(tokens, "", 100) == 1);
  another.session->script("ROLLBACK", statements::soon());
  CHECK(rows(f, "name = 'w'") == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens WHERE name = 'w'") == 1);
}

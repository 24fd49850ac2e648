// The conditions of lib/sql/<dialect>/all.sql.
#include <string>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

PAIRS_CASE("at_once_entry, at_once_draw: for the term that has just been put there, and for no other name",
           leases_of_postgresql) {
  held_lock_of_another x(f);
  f.sql("DELETE FROM rowlock_tokens");
  auto const tokens = [&](std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_tokens WHERE " + condition);
  };
  std::vector<std::pair<std::string, std::string>> const wrong{{"x", "another"}, {"y", x.term.value}};
  for (auto const& [name, term] : wrong) x.s.run("at_once_entry", {name, term});
  CHECK(tokens("1 = 1") == 0);
  x.s.run("at_once_entry", {text("x"), x.term.value});
  CHECK(tokens("name = 'x' AND token = 0") == 1);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('y', 3)");
  f.sql("UPDATE rowlock_locks SET token = 3");
  for (auto const& [name, term] : wrong) CHECK(x.s.meets("at_once_draw", {name, term}) == 0);
  CHECK(tokens("token = 0") == 1);
  CHECK(tokens("token = 3") == 1);
  CHECK(x.s.meets("at_once_draw", {text("x"), x.term.value}) == 1);
  CHECK(tokens("name = 'x' AND token > 3") == 1);
  CHECK(tokens("name = 'y' AND token = 3") == 1);
  CHECK(rows(f, "token = 3") == 2);
}

PAIRS_CASE("all_take, all_release: for what may be taken, and for the term's own row", leases_of_mysql) {
  held_lock_of_another x(f);
  auto const takes = [&](std::string const& more) {
    std::int64_t const one = 1;
    std::vector<backend::value> const with{R"([{"name":"x","term":"new")" + more + "}]",
                                           text("lease"),
                                           text("elsewhere"),
                                           one,
                                           text("process"),
                                           one,
                                           std::int64_t{30'000},
                                           text("clock"),
                                           nullptr,
                                           text(""),
                                           one,
                                           one};
    auto const met = x.s.meets("all_take", with);
    bool const took = x.is("term = 'new'");
    CHECK((met == 1) == took);
    x.again();
    return took;
  };
  std::string const old = R"(,"old":")" + x.term.value + '"';
  CHECK_FALSE(takes(""));
  x.set("strategy = 'unique_insert', term = NULL");
  CHECK_FALSE(takes(""));
  x.set("takeover = 'observed', expires_at = " + in_ms(f, -5000));
  CHECK_FALSE(takes(""));
  CHECK_FALSE(takes(R"(,"old":"nobody's")"));
  auto const incarnation = std::to_string(
      number(f, "SELECT base FROM rowlock_pulse ORDER BY begun DESC, until DESC, reach DESC LIMIT 1"));
  CHECK_FALSE(takes(old + R"(,"renewals":1,"incarnation":)" + incarnation));
  CHECK_FALSE(takes(old + R"(,"renewals":0,"incarnation":1)"));
  x.set("revoked = 1");
  CHECK_FALSE(takes(old));
  x.set("expires_at = " + in_ms(f, -5000));
  CHECK(takes(""));
  CHECK(takes(old));
  CHECK(takes(old + R"(,"renewals":0,"incarnation":)" + incarnation));
  auto const gives_back = [&](std::string const& term) {
    x.s.run("all_release", {R"([{"name":"x","term":")" + term + R"("}])"});
    return x.is("term IS NULL");
  };
  CHECK_FALSE(gives_back(base::random_id()));
  CHECK(gives_back(x.term.value));
}

namespace {

backend::result take_each(statements& s, std::string const& list, std::int64_t tokens = 1) {
  std::int64_t const one = 1;
  return s.run("each_take", {list, text("lease"), text("elsewhere"), one, text("process"), one,
                             std::int64_t{30'000}, text("clock"), nullptr, text(""), tokens});
}

/// The names of the rows.
std::vector<std::string> names_in(backend::result const& came) {
  std::vector<std::string> all;
  for (auto const& row : came.rows) all.push_back(backend::as_text(row.at(0)));
  return all;
}

}  // namespace

PAIRS_CASE("each_take: what may be taken, and has had a token", leases_of_postgresql) {
  held_lock_of_another x(f);
  auto const takes = [&](std::int64_t tokens = 1) {
    auto const met = take_each(x.s, R"([{"name":"x","term":"new"}])", tokens).rows.size();
    bool const took = x.is("term = 'new'");
    CHECK((met == 1) == took);
    x.again();
    return took;
  };
  CHECK_FALSE(takes());
  x.set("expires_at = " + in_ms(f, -5000));
  CHECK(takes());
  x.set("takeover = 'observed', expires_at = " + in_ms(f, -5000));
  CHECK_FALSE(takes());
  x.set("term = NULL");
  CHECK(takes());
  x.set("strategy = 'unique_insert', term = NULL");
  CHECK_FALSE(takes());
  x.set("term = 'name', expires_at = " + in_ms(f, -5000));
  CHECK_FALSE(takes());
  x.set("term = NULL, token = 0");
  CHECK_FALSE(takes());
  x.set("term = NULL, token = 0");
  CHECK(takes(0));
  x.set("term = NULL");
  f.sql("DELETE FROM rowlock_pulse");
  CHECK_FALSE(takes());
}

// The statement stands at the first row's trigger while others come to the rows behind it. Would it wait for
// one of them, the case would end with lock_timeout's error.
PAIRS_CASE(
    "each_take, all_release: what others lock or write after they have begun is skipped, without a wait",
    leases_of_postgresql) {
  statements s(f);
  for (auto const* name : {"a", "b", "c", "d"}) put_name(f, name, "lease");
  auto const gate = f.options.schema + ".rowlock_gate()";
  f.sql(
      "CREATE FUNCTION " + gate +
      " RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END$$");
  f.sql(
      "CREATE TRIGGER gate BEFORE UPDATE ON rowlock_locks FOR EACH ROW WHEN (OLD.name = 'a') "
      "EXECUTE FUNCTION " +
      gate);
  auto const beside = [&](std::function<void()> const& call) {
    std::optional<open_transaction> shut(std::in_place, f);
    shut->run("SELECT pg_advisory_xact_lock(4711)");
    open_transaction locks(f);
    while_it_waits(f, *s.session, call, [&] {
      f.sql("UPDATE rowlock_locks SET note = 'written', term = 'theirs' WHERE name = 'b'");
      locks.run("SELECT 1 FROM rowlock_locks WHERE name = 'c' FOR UPDATE");
      shut.reset();
    });
  };
  using names = std::vector<std::string>;
  names got;
  beside([&] {
    got = names_in(take_each(s, R"([{"name":"a","term":"1"},{"name":"b","term":"2"},{"name":"c","term":"3"},)"
                                R"({"name":"d","term":"4"}])"));
  });
  CHECK(got == names{"a", "d"});
  CHECK(rows(f, "name = 'b' AND term = 'theirs'") == 1);
  CHECK(rows(f, "name = 'c' AND term IS NULL") == 1);
  f.sql("UPDATE rowlock_locks SET term = 'mine'");
  beside([&] {
    got = names_in(s.run("all_release", {R"([{"name":"a","term":"mine"},{"name":"b","term":"mine"},)"
                                         R"({"name":"c","term":"mine"},{"name":"d","term":"mine"}])"}));
  });
  CHECK(got == names{"a", "d"});
  CHECK(rows(f, "term = 'theirs'") == 1);
  CHECK(rows(f, "name = 'c' AND term = 'mine'") == 1);
}

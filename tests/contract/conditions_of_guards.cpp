// The conditions of lib/sql/<dialect>/guard.sql and once.sql.
#include <string>
#include <vector>

#include "contract/conditions.hpp"

using namespace rowlock;
using namespace rowlock::test;

STATEMENT_CASE("once_record, once_keep: by name and term, of strategy once") {
  held_lock_of_another x(f);
  term_id const record{base::random_id()};
  auto const records = [&](std::string const& name, term_id const& term) {
    return x.s.meets("once_record", {name, term.value, record.value, std::int64_t{60'000}, text("result")}) ==
           1;
  };
  CHECK_FALSE(records("x", x.term));
  f.sql("UPDATE rowlock_locks SET strategy = 'once'");
  CHECK_FALSE(records("x", {base::random_id()}));
  CHECK_FALSE(records("y", x.term));
  CHECK(records("x", x.term));
  CHECK(x.is("note = 'result'"));
  CHECK(x.other.has_still("y"));
  CHECK_FALSE(x.rows.keep_record(*x.s.session, {"x", x.term}, statements::soon()));
  CHECK_FALSE(x.rows.keep_record(*x.s.session, {"y", record}, statements::soon()));
  CHECK(x.rows.keep_record(*x.s.session, {"x", record}, statements::soon()));
  CHECK(x.other.has_still("y"));
}

STATEMENT_CASE("guard_require, guard_record: by name and term, what is not revoked") {
  held_lock_of_another x(f);
  term_id const record{base::random_id()};
  auto const requires_ = [&](std::string const& name, term_id const& term) {
    return x.s.meets("guard_require", {name, term.value}) == 1;
  };
  auto const records = [&](std::string const& name, term_id const& term) {
    return x.s.meets("guard_record", {name, term.value, record.value, std::int64_t{60'000}, text("result"),
                                      microseconds_now()}) == 1;
  };
  auto const refused = [&](std::string const& name, term_id const& term) {
    return !requires_(name, term) && !records(name, term);
  };
  CHECK(requires_("x", x.term));
  CHECK_FALSE(records("x", x.term));  // of another strategy
  f.sql("UPDATE rowlock_locks SET strategy = 'once'");
  CHECK(refused("x", {base::random_id()}));
  CHECK(refused("y", x.term));
  x.set("revoked = " + yes(f));
  CHECK(refused("x", x.term));
  x.set("revoked = " + no(f));
  CHECK(requires_("x", x.term));
  CHECK(records("x", x.term));
  CHECK(x.other.has_still("y"));
}

PAIRS_CASE("at_once_guard: COMMIT behind it fails unless it finds name and term, not revoked",
           leases_of_postgresql) {
  held_lock_of_another x(f);
  auto const goes_on = [&](std::string const& name, term_id const& term) {
    try {
      x.s.run("at_once_guard", {name, term.value});
      return true;
    } catch (error const& e) {
      CHECK(e.sqlstate() == "22012");
      return false;
    }
  };
  CHECK(goes_on("x", x.term));
  CHECK_FALSE(goes_on("x", {base::random_id()}));
  CHECK_FALSE(goes_on("y", x.term));
  x.set("revoked = " + yes(f));
  CHECK_FALSE(goes_on("x", x.term));
  x.set("revoked = " + no(f));
  CHECK(goes_on("x", x.term));
}

STATEMENT_CASE("guard_elsewhere: goes on by name, term and database, of what is not revoked") {
  held_lock_of_another x(f);
  auto const here = backend::as_text(x.s.run("meta_read", {}).rows.at(0).at(0));
  auto const goes_on = [&](std::string const& name, term_id const& term, std::string const& database) {
    statements program(f);
    program.session->script(begin_of(f), statements::soon());
    try {
      program.run("guard_elsewhere", {name, term.value, database});
      return true;
    } catch (error const&) {
      return false;
    }
  };
  CHECK(goes_on("x", x.term, here));
  CHECK_FALSE(goes_on("x", x.term, base::random_id()));
  CHECK_FALSE(goes_on("x", {base::random_id()}, here));
  CHECK_FALSE(goes_on("y", x.term, here));
  x.set("revoked = " + yes(f));
  CHECK_FALSE(goes_on("x", x.term, here));
  x.set("revoked = " + no(f));
  CHECK(goes_on("x", x.term, here));
  CHECK(x.other.has_still("y"));
}

STATEMENT_CASE("guard_look, guard_lock: the term of the name, if it is there") {
  held_lock_of_another x(f);
  auto const seen = [&](std::string const& name, term_id const& term) {
    return x.s.run("guard_look", {name, term.value}).rows.at(0).at(0) == backend::value(term.value);
  };
  CHECK(seen("x", x.term));
  CHECK_FALSE(seen("y", x.term));
  CHECK_FALSE(seen("x", {base::random_id()}));
  if (dialect_of(f) != dialect::mysql) return;
  auto const locks = [&](std::string const& name, term_id const& term) {
    auto const found = x.s.run("guard_lock", {name, term.value}).rows;
    return found.size() == 1 && found[0].at(0) == backend::value(term.value);
  };
  CHECK(locks("x", x.term));
  CHECK_FALSE(locks("y", x.term));
  CHECK_FALSE(locks("x", {base::random_id()}));
  x.set("revoked = 1");
  CHECK_FALSE(locks("x", x.term));
}

STATEMENT_CASE("guard_wait, guard_try: the anchor of the name") {
  held_lock_of_another x(f);
  std::vector<backend::value> const name{text("x")};
  for (std::string const each : {"guard_wait", "guard_try"}) {
    CAPTURE(each);
    f.sql("UPDATE rowlock_locks SET strategy = 'row_lock' WHERE name = 'y'");
    x.set("strategy = 'lease'");
    CHECK(x.s.meets(each, name) == 0);
    f.sql("UPDATE rowlock_locks SET strategy = 'lease' WHERE name = 'y'");
    x.set("strategy = 'row_lock'");
    CHECK(x.s.meets(each, name) == 1);
  }
}

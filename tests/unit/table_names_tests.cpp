#include <doctest/doctest.h>

#include <rowlock/error.hpp>

#include "backend/backend.hpp"

using namespace rowlock;
using backend::table_names;

namespace {

constexpr backend::dialect with_schemas{.name = "somesql", .has_schemas = true, .longest_identifier = 63};
constexpr backend::dialect without{.name = "filesql", .has_schemas = false, .longest_identifier = 255};

bool good(table_names const& t, backend::dialect const& d = with_schemas) {
  try {
    t.validate(d);
    return true;
  } catch (error const& e) {
    CHECK(e.reason() == errc::invalid_argument);
    return false;
  }
}

}  // namespace

TEST_CASE("schema and prefix are plain identifiers that fit") {
  CHECK(good({}));
  CHECK(good({"app", "locks_"}));
  CHECK(good({"_App9", "_"}));
  CHECK_FALSE(good({"", ""}));
  CHECK_FALSE(good({"", "9x_"}));
  CHECK_FALSE(good({"", "a b"}));
  CHECK_FALSE(good({"", "a\"b"}));
  CHECK_FALSE(good({"", "a;--"}));
  CHECK_FALSE(good({"", "caf\xc3\xa9"}));
  CHECK_FALSE(good({"", std::string("a\0", 2)}));
  CHECK_FALSE(good({"a.b", "rowlock_"}));
  CHECK_FALSE(good({"a\"", "rowlock_"}));
  CHECK_FALSE(good({"9", "rowlock_"}));
  CHECK(good({std::string(63, 's'), std::string(42, 'p')}));  // 42 and "try_acquire_exclusive"
  CHECK_FALSE(good({std::string(64, 's'), "rowlock_"}));
  CHECK_FALSE(good({"", std::string(43, 'p')}));
  CHECK_FALSE(good({"app", "rowlock_"}, without));
  CHECK(good({"", std::string(234, 'p')}, without));
}

TEST_CASE("the shipped names, and only whole ones, are replaced") {
  table_names const t{"app", "p_"};
  CHECK(t.table("locks") == "\"app\".\"p_locks\"");
  CHECK(table_names{}.table("meta") == "\"rowlock_meta\"");
  CHECK(t.render("SELECT rowlock_locks.name FROM rowlock_locks, rowlock_tokens") ==
        "SELECT \"app\".\"p_locks\".name FROM \"app\".\"p_locks\", \"app\".\"p_tokens\"");
  CHECK(t.render("rowlock_meta") == "\"app\".\"p_meta\"");
  CHECK(t.render("(rowlock_migrations)") == "(\"app\".\"p_migrations\")");
  CHECK(
      t.render("SELECT rowlock_try_acquire('n'), rowlock_renew(1), rowlock_release(2), rowlock_require(3)") ==
      "SELECT \"app\".\"p_try_acquire\"('n'), \"app\".\"p_renew\"(1), \"app\".\"p_release\"(2), "
      "\"app\".\"p_require\"(3)");
  CHECK(t.render("rowlock_acquire rowlock_renewed @rowlock_sql_mode") ==
        "rowlock_acquire rowlock_renewed @rowlock_sql_mode");
  CHECK(t.render("rowlock_locks2 xrowlock_locks rowlock_ rowlock_other rowlock_locks_x") ==
        "rowlock_locks2 xrowlock_locks rowlock_ rowlock_other rowlock_locks_x");
  CHECK(t.render("rowlock_rowlock_locks") == "rowlock_rowlock_locks");
  CHECK(t.render("") == "");
  // A prefix that has a shipped name in it is not replaced once more.
  table_names const odd{"", "rowlock_locks_"};
  CHECK(odd.render("rowlock_locks rowlock_meta") == "\"rowlock_locks_locks\" \"rowlock_locks_meta\"");
}

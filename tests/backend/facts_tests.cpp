// What only the drivers know of their sessions.

#include <doctest/doctest.h>

#include "backend/database.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("facts: what each driver tells of a session, and what it can't", On, ROWLOCK_BACKENDS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const facts = c->facts();
  bool const file = is_sqlite(On::kind);
  bool const postgresql = On::kind == kind::postgresql;
  CHECK(facts.file_system.has_value() == file);
  CHECK(facts.leaves_machine.has_value() == !file);
  CHECK_FALSE(facts.leaves_machine.value_or(false));  // 127.0.0.1
  // As lib/doc/outages.md says; on SOCI's own sessions it would be two hours.
  CHECK(facts.keepalive.value_or(11s) == 11s);
  CHECK(facts.keepalive.has_value() == !file);
  CHECK(facts.encryption.has_value() == postgresql);
  CHECK(facts.encryption.value_or("") == "");
  REQUIRE(facts.server_process.has_value() == postgresql);
  if (postgresql)
    CHECK(*facts.server_process ==
          backend::as_int(c->execute({"pid", "SELECT pg_backend_pid()"}, {}, in(20'000)).rows.at(0).at(0)));
}

}  // namespace rowlock::test

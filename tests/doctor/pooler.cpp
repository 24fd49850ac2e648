// PgBouncer between.
#include "support/pgbouncer.hpp"

#include <fmt/format.h>

#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

TEST_CASE("C19: pooler: none, PgBouncer in session mode, in transaction mode <postgresql>") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  expect(s.examine(), "pooler", verdict::ok, "connected to the server itself");
  {
    pgbouncer const p(s.as_app(), "session");
    expect(examined(p.address()), "pooler", verdict::ok, "there is a pooler in between: each statement", "");
    expect(examined(p.address() + " pooler=session"), "pooler", verdict::ok,
           "in session mode as far as can be seen");
  }
  pgbouncer const p(s.as_app(), "transaction");
  auto const all = examined(p.address());
  expect(all, "pooler", verdict::ok, "as a transaction of its own");
  for (auto const& one : all)
    if (one.check != "tables")  // at all of which a client's role may not look
      CHECK_MESSAGE(one.result == verdict::ok, fmt::format("{}: {}", one.check, one.why));
  expect(examined(p.address() + " pooler=session"), "pooler", verdict::error, "by the transaction",
         "Leave out pooler=session");
}

// rowlock freeze, thaw and quarantine on real databases. Alone: a freeze waits for all transactions of the
// server.

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"
#include "support/eventually.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

#define FREEZE_CASE(text) SERVER_CASE(text* doctest::description("alone"))

finished tries(place const& p, std::string const& name) {
  return p.rowlock({"run", "--no-wait", name, "--", "true"});
}

/// As a crash leaves pulses, or a promotion.
void lose_pulses(place const& p) {
  p.sql(p.dialect() == "postgresql" ? "DELETE FROM rowlock_pulse"
                                    : "UPDATE rowlock_pulse SET made_by = made_by + 1");
}

}  // namespace

FREEZE_CASE("freeze: nothing is granted until thaw; take, list and doctor say so") {
  Place const p;
  holder const h(p, {"n"});
  auto const frozen = p.rowlock({"freeze", "--for", "10m"});
  CHECK(frozen.status == 0);
  CHECK(frozen.out == "Frozen: nothing is granted for 10m.\n");
  auto const refused = tries(p, "x");
  CHECK(refused.status == 75);
  CHECK(refused.says("an operator has frozen the database"));
  CHECK(refused.says("rowlock thaw"));
  auto const list = p.rowlock({"list"});
  CHECK(list.status == 0);
  CHECK(list.out.find("n ") != std::string::npos);
  CHECK(list.says("an operator has frozen the database: it grants nothing for 9m"));
  CHECK(p.rowlock({"doctor"}).out.find("frozen by an operator") != std::string::npos);
  auto const thawed = p.rowlock({"thaw"});
  CHECK(thawed.status == 0);
  CHECK(thawed.out == "The database grants locks.\n");
  CHECK(tries(p, "x").status == 0);
  CHECK_FALSE(p.rowlock({"list"}).says("frozen"));
  auto const as_json = json::parse(p.rowlock({"freeze", "--json"}).out);
  CHECK(as_json["in_force"] == true);
  CHECK(as_json["in_the_way"].empty());
  auto const after = json::parse(p.rowlock({"thaw", "--json"}).out);
  CHECK(after == json{{"enabled", true}, {"frozen_ms", 0}, {"grants_in_ms", 0}});
}

FREEZE_CASE("freeze: who waits for a row in the server is in the way, and named: 75") {
  Place const p;
  holder const h(p, {"--strategy", "row_lock", "r"});
  CHECK(p.rowlock({"freeze"}).status == 0);  // a holder is not
  CHECK(p.rowlock({"thaw"}).status == 0);
  program waiter(p.command({"run", "--strategy", "row_lock", "r", "--", "true"}), p.variables());
  // Each wait in the server is short, and the next one is frozen, too.
  auto const refused_by = [&](std::vector<std::string> const& freeze) {
    finished refused;
    CHECK(eventually([&] {
      refused = p.rowlock(freeze);
      bool const waits = refused.status == 75;
      if (!waits) CHECK(p.rowlock({"thaw"}).status == 0);
      return waits;
    }));
    return refused;
  };
  auto const refused = refused_by({"freeze", "--timeout", "0"});
  CHECK(refused.says("frozen, but not in force yet"));
  CHECK(refused.says("session "));
  CHECK(refused.out.empty());
  auto const as_json = json::parse(refused_by({"freeze", "--timeout", "0", "--json"}).out);
  CHECK(as_json["in_force"] == false);
  CHECK(as_json["in_the_way"].at(0)["session"] > 0);
  waiter.signal(SIGTERM);
  (void)waiter.wait();
  CHECK(p.rowlock({"freeze"}).status == 0);
}

FREEZE_CASE("freeze: the quarantine is off, and on") {
  Place const p;
  auto const off = p.rowlock({"quarantine", "off"});
  CHECK(off.status == 0);
  CHECK(off.says("two processes can own one lock"));
  CHECK(off.out == "The database grants locks.\n");
  lose_pulses(p);
  CHECK(tries(p, "x").status == 0);
  CHECK(p.rowlock({"list"}).says("the quarantine is off"));
  CHECK(p.rowlock({"doctor"}).out.find("off: after a failover") != std::string::npos);
  auto const on = p.rowlock({"quarantine", "on", "--json"});
  CHECK(on.status == 0);
  CHECK(json::parse(on.out)["enabled"] == true);
  lose_pulses(p);
  CHECK(tries(p, "x").status == 75);
  auto const running = p.rowlock({"list"});
  CHECK(running.says("may have forgotten locks"));
  CHECK(running.says("grants none for"));
}

TEST_CASE("freeze: a file has none <sqlite>") {
  on_sqlite const p;
  for (words const& command : {words{"freeze"}, words{"thaw"}, words{"quarantine", "off"}}) {
    auto const r = p.rowlock(command);
    CHECK(r.status == 78);
    CHECK(r.says("this database has no quarantine"));
    CHECK_FALSE(r.says("bug"));
  }
  CHECK(tries(p, "x").status == 0);
}

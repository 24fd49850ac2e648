// rowlock repair on real databases.

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

constexpr char const* highest = "9223372036854775807";

std::int64_t token_of(finished const& r) {
  CHECK(r.status == 0);
  return std::strtoll(r.out.c_str(), nullptr, 10);
}

finished takes(place const& p, std::string const& name, words options = {}) {
  options.insert(options.begin(), {"run", "--no-wait"});
  options.insert(options.end(), {name, "--", "sh", "-c", "echo $ROWLOCK_TOKEN"});
  return p.rowlock(std::move(options));
}

void set_token(place const& p, std::string const& table, std::string const& name) {
  p.sql("UPDATE " + table + " SET token = " + highest + " WHERE name = '" + name + "'");
}

void check_unusable(finished const& r, std::string const& name) {
  CHECK(r.status == 78);
  CHECK(r.says("'" + name + "' can't be taken"));
  CHECK(r.says("`rowlock repair " + name));
  CHECK_FALSE(r.says("bug"));
}

}  // namespace

CLI_CASE("C81: repair: a name whose token leaves no room is said to be that, and can be taken again") {
  Place const p;
  auto const before = token_of(takes(p, "n"));
  CHECK(token_of(takes(p, "other")) > before);
  set_token(p, "rowlock_locks", "n");
  check_unusable(takes(p, "n"), "n");
  check_unusable(takes(p, "a", {"--and", "n"}), "n");
  check_unusable(p.rowlock({"take", "n", "--ttl", "1m"}), "n");
  auto const released = p.rowlock({"release", "--force", "n"});
  CHECK(released.out == "'n' has no holder.\n");
  CHECK(released.says("`rowlock repair n"));
  auto const repaired = p.rowlock({"repair", "n"});
  CHECK(repaired.status == 0);
  CHECK(repaired.out == "'n' can be taken again. Its tokens begin anew.\n");
  CHECK(token_of(takes(p, "n")) > before);
  auto const again = p.rowlock({"repair", "n"});
  CHECK(again.status == 0);
  CHECK(again.out.starts_with("Nothing to repair"));
  CHECK(json::parse(p.rowlock({"repair", "n", "--json"}).out)["repaired"] == false);
  CHECK(json::parse(p.rowlock({"repair", "no such", "--json"}).out)["repaired"] == false);
}

CLI_CASE("C81: repair: of strategies whose tokens outlive their rows, and of permits") {
  Place const p;
  for (auto const& how : p.strategies()) {
    if (how == "lease") continue;
    CAPTURE(how);
    auto const before = token_of(takes(p, how, {"--strategy", how}));
    set_token(p, "rowlock_tokens", how);
    check_unusable(takes(p, how, {"--strategy", how}), how);
    CHECK(p.rowlock({"repair", how}).status == 0);
    CHECK(token_of(takes(p, how, {"--strategy", how})) > before);
  }
  auto const before = token_of(takes(p, "permits", {"--permits", "2"}));
  set_token(p, "rowlock_locks", "permits");
  check_unusable(takes(p, "permits", {"--permits", "2"}), "permits");
  CHECK(p.rowlock({"repair", "permits"}).status == 0);
  CHECK(token_of(takes(p, "permits", {"--permits", "2"})) > before);
}

CLI_CASE("C81: repair: what is held, or recorded as done, is left alone; an expired term is not") {
  Place const p;
  holder h(p, {"--ttl", "60s", "n"});
  set_token(p, "rowlock_locks", "n");
  auto const held = p.rowlock({"repair", "n"});
  CHECK(held.status == 75);
  CHECK(held.says("rowlock release --force --now n"));
  CHECK(json::parse(p.rowlock({"list", "--json"}).out).at(0)["token"] == json::parse(highest));
  h.signal(SIGSTOP);
  p.sql("UPDATE rowlock_locks SET expires_at = " + hours_ago(p, 1) +
        ", takeover = 'observed' WHERE name = 'n'");
  CHECK(p.rowlock({"repair", "n"}).status == 75);
  p.sql("UPDATE rowlock_locks SET takeover = 'clock' WHERE name = 'n'");
  CHECK(p.rowlock({"repair", "n"}).status == 0);
  CHECK(token_of(takes(p, "n")) > 0);
  h.signal(SIGCONT);
  CHECK(h.wait() == 76);
  REQUIRE(p.rowlock({"once", "o", "--for", "1d", "--", "true"}).status == 0);
  set_token(p, "rowlock_locks", "o");
  CHECK(p.rowlock({"repair", "o"}).status == 75);
  holder const permit(p, {"--ttl", "60s", "--permits", "2", "p"});
  set_token(p, "rowlock_locks", "p");
  CHECK(p.rowlock({"repair", "p"}).status == 75);
  holder const insert(p, {"--ttl", "60s", "--strategy", "unique_insert", "u"});
  set_token(p, "rowlock_tokens", "u");
  CHECK(p.rowlock({"repair", "u"}).status == 75);
}

CLI_CASE("C81: repair: what admit() has seen of the name, and a token with just enough room") {
  Place const p;
  p.sql(fmt::format("INSERT INTO rowlock_admitted (name, token) VALUES ('n', {}), ('m', 9223372036854775743)",
                    highest));
  CHECK(p.rowlock({"repair", "n"}).out.find("can be taken again") != std::string::npos);
  CHECK(p.rowlock({"repair", "n"}).out.starts_with("Nothing to repair"));
  CHECK(p.rowlock({"repair", "m"}).out.starts_with("Nothing to repair"));
  (void)takes(p, "x");
  p.sql("UPDATE rowlock_locks SET token = 9223372036854775743 WHERE name = 'x'");
  CHECK(p.rowlock({"repair", "x"}).out.starts_with("Nothing to repair"));
  CHECK(token_of(takes(p, "x")) == 9223372036854775744);
}

SERVER_CASE("C81: repair: a row that a transaction has locked, and a row_lock that is held: 75") {
  Place const p;
  holder const h(p, {"--strategy", "row_lock", "r"});
  set_token(p, "rowlock_tokens", "r");
  CHECK(p.rowlock({"repair", "r"}).status == 75);
}

TEST_CASE("C81: repair without a database that is named does nothing: 64") {
  scratch_folder const home;
  auto const r = run({rowlock_program, "repair", "n"}, {{"HOME", home.path().string()}});
  CHECK(r.status == 64);
  CHECK(r.says("no database is named"));
}

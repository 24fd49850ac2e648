// rowlock list, where there is much to list.

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

words names(finished const& r) {
  CHECK(r.status == 0);
  words all;
  for (auto const& lock : json::parse(r.out)) all.push_back(lock["name"]);
  return all;
}

words listed(place const& p, words options) {
  options.insert(options.begin(), {"list", "--json"});
  return names(p.rowlock(std::move(options)));
}

words matching(words const& all, std::string const& glob) {
  words found;
  for (auto const& name : all)
    if (::fnmatch(glob.c_str(), name.c_str(), 0) == 0) found.push_back(name);
  return found;
}

}  // namespace

CLI_CASE("C77: list: any number of names, page by page: each once, in order, by globs and --limit") {
  Place const p;
  constexpr int many = 40'000;
  leave_idle(p, many);
  p.sql("UPDATE rowlock_locks SET term = 't' WHERE name IN ('n1', 'n7000', 'n9999')");
  auto const all = listed(p, {"--all"});
  CHECK(all.size() == many);
  CHECK(std::is_sorted(all.begin(), all.end()));
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  CHECK(listed(p, {}) == words{"n1", "n7000", "n9999"});
  CHECK(listed(p, {"n7*"}) == words{"n7000"});
  CHECK(listed(p, {"--all", "n*[13]7?"}) == matching(all, "n*[13]7?"));
  CHECK(listed(p, {"--all", "--limit", "2500"}) == words(all.begin(), all.begin() + 2500));
  CHECK(listed(p, {"--all", "--limit", "2", "*5"}) == words{"n10005", "n10015"});
  auto const metrics = p.rowlock({"list", "--metrics", "--all"});
  CHECK(metrics.status == 0);
  CHECK(metrics.out.find("strategy=\"lease\",state=\"idle\"} 39997\n") != std::string::npos);
  auto const table = p.rowlock({"list", "--all"}).out;
  CHECK(std::count(table.begin(), table.end(), '\n') == many + 1);
  CHECK(table.starts_with("NAME    STATE"));
}

CLI_CASE("C77: list GLOB: the database leaves out what fnmatch leaves out, and nothing else") {
  Place const p;
  words all{"A%B",
            "a b",
            "a%b",
            "a*b",
            "a[b",
            "a\\b",
            "a_b",
            "a\xc3\xa4"
            "b",
            "a|b",
            "ab",
            "b"};
  for (auto const& name : all) REQUIRE(p.rowlock({"run", name, "--", "true"}).status == 0);
  std::sort(all.begin(), all.end());
  REQUIRE(listed(p, {"--all"}) == all);
  for (std::string const glob :
       {"*",          "a*",      "a%b",    "a_b",    "a|b",     "a?b", "a??b",         "?",
        "a\\*b",      "a\\\\b",  "a[%_]b", "a[!%]b", "a[",      "a[b", "[[:upper:]]*", "*b",
        "a\xc3\xa4*", "a\xc3?b", "a*b*",   "",       "nothing", "a\\"}) {
    CAPTURE(glob);
    CHECK(listed(p, {"--all", glob}) == (glob.empty() ? all : matching(all, glob)));
  }
}

CLI_CASE("C77: list --held-longer-than: locks and permits that are held since before that") {
  Place const p;
  holder const young(p, {"--ttl", "60s", "a"});
  holder const old(p, {"--ttl", "60s", "b"});
  holder const permit(p, {"--ttl", "60s", "--permits", "3", "c"});
  holder const young_permit(p, {"--ttl", "60s", "--permits", "3", "d"});
  CHECK(listed(p, {}) == words{"a", "b", "c", "d"});
  p.sql("UPDATE rowlock_locks SET acquired_at = " + hours_ago(p, 2) + " WHERE name = 'b'");
  p.sql("UPDATE rowlock_permits SET acquired_at = " + hours_ago(p, 2) + " WHERE name = 'c'");
  CHECK(listed(p, {"--held-longer-than", "1h"}) == words{"b", "c"});
  CHECK(listed(p, {"--held-longer-than", "1h", "--all"}) == words{"b", "c"});
  CHECK(listed(p, {"--held-longer-than", "3h"}).empty());
  CHECK(listed(p, {"--limit", "1", "c*"}) == words{"c"});
}

TEST_CASE_TEMPLATE("C77: list: a text of megabytes in one row keeps nothing from being read", Place,
                   on_sqlite, on_postgresql) {
  Place const p;
  holder const a(p, {"--ttl", "60s", "--note", "short", "a"});
  holder const b(p, {"--ttl", "60s", "b"});
  bool const server = p.dialect() == "postgresql";
  std::string const long_text = server ? "repeat('x', 9000000)" : "replace(hex(zeroblob(4500000)), '0', 'x')";
  p.sql("UPDATE rowlock_locks SET note = " + long_text + (server ? ", owner_host = " + long_text : "") +
        " WHERE name = 'b'");
  auto const r = p.rowlock({"list", "--json"});
  REQUIRE(r.status == 0);
  auto const all = json::parse(r.out);
  REQUIRE(all.size() == 2);
  CHECK(all[0]["note"] == "short");
  CHECK(all[1]["note"] == std::string(1024, 'x'));
  auto const table = p.rowlock({"list"});
  CHECK(table.status == 0);
  CHECK(table.out.size() < 3000);
  CHECK(table.out.find(std::string(97, 'x') + "...\n") != std::string::npos);
  CHECK(p.rowlock({"run", "--no-wait", "b", "--", "true"}).status == 75);
  CHECK(p.rowlock({"list", "--metrics"}).status == 0);
}

// `rowlock grants` and schema/*-grants.sql.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <regex>
#include <sstream>

#include "cli/place.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

/// The statements, and only these.
std::vector<std::string> statements(std::string const& sql, std::string const& containing) {
  std::vector<std::string> out;
  std::istringstream lines(sql);
  for (std::string one; std::getline(lines, one);)
    if (!one.starts_with("--") && one.find(containing) != one.npos) out.push_back(one);
  return out;
}

words asked(std::string const& dialect, std::string const& role, words more = {}) {
  words all{rowlock_program, "grants", "--dialect", dialect, "--role", role};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("C84: grants: the files and the program say the same") {
  for (std::string const dialect : {"postgresql", "mysql"}) {
    auto const file = read_file(source_path("schema/" + dialect + "-grants.sql"));
    for (std::string const which : {"locking", "reaping"}) {
      auto const quote = dialect == "mysql" ? "'" : "\"";
      auto const mine = "TO rowlock_" + which;
      auto expected = statements(file, mine);
      for (auto& one : expected) one.replace(one.find(mine), mine.size(), fmt::format("TO {0}app{0}", quote));
      auto const got = run(asked(dialect, "app", which == "reaping" ? words{"--reaping"} : words{}));
      CHECK(got.status == 0);
      CHECK(statements(got.out, " TO ") == expected);
      CHECK(got.out.find("CREATE ROLE") == got.out.npos);
    }
  }
  auto const elsewhere = run(asked("mysql", "app@%", {"--schema", "shop", "--table-prefix", "my_"})).out;
  CHECK(elsewhere.find("GRANT SELECT ON `shop`.`my_meta` TO 'app'@'%';\n") != elsewhere.npos);
  CHECK(elsewhere.find("GRANT EXECUTE ON PROCEDURE `shop`.`my_renew` TO 'app'@'%';\n") != elsewhere.npos);
  for (words const& wrong : {asked("sqlite", "app"), asked("mysql", "app", {"--table-prefix", "a-b"}),
                             words{rowlock_program, "--db", "local", "grants", "--role", "app"}})
    CHECK(run(wrong).status == 64);
}

TEST_CASE("C84: grants <postgresql>: for other tables of one server, without sed") {
  on_postgresql const p;
  words const prefixed{"--table-prefix", "second_"};
  auto const on_second = [&](words more) {
    more.insert(more.begin(), prefixed.begin(), prefixed.end());
    return p.command(more);
  };
  REQUIRE(run(on_second({"migrate", "up"}), p.variables()).status == 0);
  auto const role = unique_identifier();
  p.sql("CREATE ROLE " + role + " LOGIN PASSWORD 'secret'");
  auto const as_role = p.variables({{"ROWLOCK_DB", p.url() + " user=" + role + " password=secret"}});
  auto const grant = [&](words more) {
    auto const said = run(more, p.variables());
    REQUIRE_MESSAGE(said.status == 0, said.err);
    p.sql(said.out);
  };
  for (bool const second : {false, true}) {
    auto const command = [&](words const& w) { return second ? on_second(w) : p.command(w); };
    auto const locks = [&] { return run(command({"run", "n", "--", "true"}), as_role).status; };
    auto const reaps = [&] { return run(command({"reap", "--quiet"}), as_role).status; };
    CHECK(locks() != 0);
    grant(command({"grants", "--role", role}));
    CHECK(locks() == 0);
    CHECK(reaps() == 77);
    grant(command({"grants", "--role", role, "--reaping"}));
    CHECK(reaps() == 0);
  }
  p.sql(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", role));
}

}  // namespace rowlock::test

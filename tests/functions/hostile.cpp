// Names, terms and arguments of all kinds, and locks that are used with another strategy.

#include <fmt/format.h>

#include <algorithm>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

FUNCTIONS_CASE("names are bytes: what differs for the library differs in SQL") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  std::vector<std::string> const names{"job",  "job ",  "Job",
                                       "jöb",  "jo\"b", "j'; DROP TABLE rowlock_locks; --",
                                       "j\\b", "%",     "🔒",
                                       "🔑",    "é",     "e\xcc\x81",
                                       " ",    "\t",    std::string(255, 'x')};
  std::vector<std::string> terms;
  for (auto const& name : names) {
    CAPTURE(name);
    auto const t = p.take(*sql, name);
    REQUIRE(t);
    terms.push_back(t->term);
    CHECK_FALSE(p.take(*sql, name));
    CHECK(m->make_mutex(name).try_acquire().status() == acquire_status::busy);
  }
  auto const listed = m->list();
  CHECK(listed.size() == names.size());
  for (auto const& one : listed) CHECK(std::count(names.begin(), names.end(), one.name) == 1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(p.renew(*sql, names[i], terms[i]) == "1");
    CHECK(p.require(*sql, names[i], terms[i]).empty());
    CHECK(p.release(*sql, names[i], terms[i]) == "1");
    CHECK(m->make_mutex(names[i]).try_acquire());
  }
}

FUNCTIONS_CASE("names and times that make no sense are refused, not cut") {
  Place const p;
  auto const sql = p.session();
  for (auto const& name :
       {std::string(), std::string(256, 'x'), std::string(254, 'x') + "é", std::string(60'000, 'x')}) {
    CAPTURE(name.size());
    CHECK(sql->run(p.take_text(name)).find(p.invalid()) != std::string::npos);
    CHECK(p.release(*sql, name, "x") == "0");
  }
  for (int const ttl : {0, -1, 99})
    CHECK(sql->run(p.take_text("n", ttl)).find(p.invalid()) != std::string::npos);
  auto const function = p.table("try_acquire");
  auto const with_note = [&](std::string const& note) {
    return sql->run(p.is_mysql() ? fmt::format("CALL {}('n', 1000, {}, @t, @k);", function, note)
                                 : fmt::format("SELECT term FROM {}('n', '1 s', {});", function, note));
  };
  CHECK(with_note("repeat('x', 1025)").find(p.invalid()) != std::string::npos);
  CHECK(sql->run(p.is_mysql() ? fmt::format("CALL {}(NULL, 1000, '', @t, @k);", function)
                              : fmt::format("SELECT * FROM {}(NULL, '1 s');", function))
            .find(p.invalid()) != std::string::npos);
  CHECK(sql->run(p.is_mysql() ? fmt::format("CALL {}('n', NULL, '', @t, @k);", function)
                              : fmt::format("SELECT * FROM {}('n', NULL);", function))
            .find(p.invalid()) != std::string::npos);
  CHECK(p.ask(fmt::format("SELECT count(*) FROM {};", p.table("locks"))) == "0");
  CHECK(with_note("NULL").find("ERROR") == std::string::npos);
  CHECK(p.ask(fmt::format("SELECT concat('<', note, '>') FROM {};", p.table("locks"))) == "<>");
}

FUNCTIONS_CASE("another strategy's lock is refused, and its row stays as it is") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto one = m->make_mutex("unique", {.strategy = strategy::unique_insert});
  auto held = one.try_acquire();
  REQUIRE(held);
  auto anchored = m->make_mutex("anchor", {.strategy = strategy::row_lock});
  {
    auto locked = anchored.try_acquire();
    REQUIRE(locked);
    CHECK(sql->run(p.take_text("anchor")).find(p.other_strategy()) != std::string::npos);
  }
  CHECK(sql->run(p.take_text("anchor")).find(p.other_strategy()) != std::string::npos);
  CHECK(sql->run(p.take_text("unique")).find(p.other_strategy()) != std::string::npos);
  auto const term = held->term().value;
  CHECK(p.release(*sql, "unique", term) == "0");
  CHECK(p.renew(*sql, "unique", term) == "1");
  CHECK(p.require(*sql, "unique", term).empty());
  p.expire("unique");
  CHECK(sql->run(p.take_text("unique")).find(p.other_strategy()) != std::string::npos);
  // And the other way round.
  REQUIRE(p.take(*sql, "leased"));
  CHECK_THROWS_AS((void)m->make_mutex("leased", {.strategy = strategy::unique_insert}).try_acquire(), error);
}

MYSQL_FUNCTIONS_CASE("names come in any character set, and mean the same") {
  Place const p;
  auto const sql = p.session();
  REQUIRE(p.take(*sql, "jöb"));
  for (std::string const same : {"CONVERT('jöb' USING latin1)", "CONVERT('jöb' USING utf16)",
                                 "CAST('jöb' AS BINARY)", "_utf8mb4'jöb' COLLATE utf8mb4_unicode_ci"}) {
    CAPTURE(same);
    CHECK(sql->run(fmt::format("CALL rowlock_try_acquire({}, 1000, '', @t, @k); SELECT @t IS NULL;", same)) ==
          "1");
  }
  CHECK(p.ask("SELECT count(*) FROM rowlock_locks;") == "1");
}

MYSQL_FUNCTIONS_CASE("the caller's SQL mode changes nothing: an over-long name is not cut") {
  Place const p;
  auto const sql = p.session();
  CHECK(sql->run("SET SESSION sql_mode = 'ANSI';").empty());
  CHECK(sql->run(p.take_text(std::string(256, 'x'), 1000)).find(p.invalid()) != std::string::npos);
  CHECK(p.take(*sql, std::string(255, 'x')));
  CHECK(sql->run("SET SESSION sql_safe_updates = 1;").empty());
  auto const t = p.take(*sql, "n");
  REQUIRE(t);
  CHECK(p.renew(*sql, "n", t->term) == "1");
  CHECK(p.release(*sql, "n", t->term) == "1");
}

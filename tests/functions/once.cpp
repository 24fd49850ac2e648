// Work that is done once, from SQL and from the library.

#include <fmt/format.h>

#include <rowlock/once.hpp>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

FUNCTIONS_CASE("once: what SQL has done is done for the library, and the other way round") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto const term = p.once(*sql, "n");
  REQUIRE(term);
  CHECK(sql->run(p.once_text("n")).empty());  // it runs: busy, and not done
  auto x = m->make_mutex("n", {.strategy = strategy::once});
  CHECK(x.try_acquire().status() == acquire_status::busy);
  CHECK(sql->run(p.done_text("n", *term, "it's fine")).empty());
  CHECK(sql->run(p.once_text("n")) == "||1|it's fine");
  auto const told = x.try_acquire();
  CHECK(told.status() == acquire_status::done);
  REQUIRE(told.holder());
  CHECK(told.holder()->note == "it's fine");
  int runs = 0;
  auto const work = [&](once_run& run) {
    ++runs;
    run.set_result("by the library");
  };
  CHECK(run_once(*m, "n", 24h, work).status == once_status::was_done);
  CHECK(run_once(*m, "m", 24h, work).status == once_status::ran);
  CHECK(runs == 1);
  CHECK(sql->run(p.once_text("m")) == "||1|by the library");
  // Forgotten, it is to be done again.
  CHECK(m->revoke("n", revoke_mode::now));
  CHECK(p.once(*sql, "n"));
}

FUNCTIONS_CASE("once: the record and the data are committed together, or neither") {
  Place const p;
  auto const sql = p.session();
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  auto const term = p.once(*sql, "n");
  REQUIRE(term);
  for (std::string const end : {"ROLLBACK;", "COMMIT;"}) {
    CHECK(sql->run("BEGIN; INSERT INTO work VALUES (1);").empty());
    CHECK(sql->run(p.done_text("n", *term, "r")).empty());
    auto const other = p.session();
    CHECK(other->run(p.once_text("n")).empty());  // not committed: busy, not done
    CHECK_FALSE(p.manager()->make_mutex("n", {.strategy = strategy::once}).try_acquire());
    CHECK(sql->run(end).empty());
    CHECK(other->run(p.once_text("n")) == (end == "COMMIT;" ? "||1|r" : ""));
    CHECK(p.ask("SELECT count(*) FROM work;") == (end == "COMMIT;" ? "1" : "0"));
  }
}

FUNCTIONS_CASE("once: done twice is refused, so that the data is not written twice") {
  Place const p;
  auto const sql = p.session();
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  auto const term = p.once(*sql, "n");
  REQUIRE(term);
  auto const row = fmt::format("SELECT term, token, renewals, expires_at, note FROM {};", p.table("locks"));
  CHECK(sql->run(p.done_text("n", *term, "first")).empty());
  auto const record = p.ask(row);
  CHECK(sql->run("BEGIN; INSERT INTO work VALUES (2);").empty());
  CHECK(sql->run(p.done_text("n", *term, "second")).find(p.lost()) != std::string::npos);
  CHECK(sql->run("ROLLBACK;").empty());
  // Nor does anything else touch the record.
  CHECK(p.renew(*sql, "n", *term) == "0");
  CHECK(sql->run(p.call("release_once", "n", *term)) == "0");
  CHECK(p.require(*sql, "n", *term).find(p.lost()) != std::string::npos);
  CHECK(p.ask(row) == record);
  CHECK(p.ask("SELECT count(*) FROM work;") == "0");
}

FUNCTIONS_CASE("once: only the run's own term makes a record, and not a revoked one") {
  Place const p;
  auto const sql = p.session();
  auto const lock = p.take(*sql, "leased");
  REQUIRE(lock);
  CHECK(sql->run(p.done_text("leased", lock->term, "")).find(p.lost()) != std::string::npos);
  auto const first = p.once(*sql, "n");
  REQUIRE(first);
  for (auto const& wrong : {std::string(32, '0'), std::string(), *first + " ", *first + "0"})
    CHECK(sql->run(p.done_text("n", wrong, "")).find(p.lost()) != std::string::npos);
  CHECK(sql->run(p.done_text("m", *first, "")).find(p.lost()) != std::string::npos);
  p.expire("n");
  auto const second = p.once(*sql, "n");
  REQUIRE(second);
  CHECK(sql->run(p.done_text("n", *first, "late")).find(p.lost()) != std::string::npos);
  CHECK(p.renew(*sql, "n", *second) == "1");
  CHECK(p.require(*sql, "n", *second).empty());
  CHECK(p.manager()->revoke("n", revoke_mode::at_renewal));
  CHECK(sql->run(p.done_text("n", *second, "")).find(p.lost()) != std::string::npos);
  CHECK(sql->run(p.call("release_once", "n", *second)) == "1");
  CHECK(p.release(*sql, "n", *second) == "0");
  CHECK(p.once(*sql, "n"));
}

FUNCTIONS_CASE(
    "once: a record lasts as long as it is to be kept, and arguments that make no sense are refused") {
  Place const p;
  auto const sql = p.session();
  auto const term = p.once(*sql, "n");
  REQUIRE(term);
  for (auto const& wrong :
       {p.done_text("n", *term, "", 0), p.done_text("n", *term, "", -1),
        p.done_text("n", *term, "", 3'153'600'000'001), p.done_text("n", *term, std::string(1025, 'x')),
        p.once_text("", 1000), p.once_text("n", 99)})
    CHECK_MESSAGE(sql->run(wrong).find(p.invalid()) != std::string::npos, wrong.substr(0, 200));
  CHECK(sql->run(p.done_text("n", *term, std::string(1024, 'x'), 3'153'600'000'000)).empty());
  CHECK(sql->run(p.once_text("n")) == "||1|" + std::string(1024, 'x'));
  CHECK(p.ask(fmt::format("SELECT count(*) FROM {} WHERE longest = ttl AND longest_term = term AND ttl = "
                          "3153600000000;",
                          p.table("locks"))) == "1");
  p.expire("n");
  CHECK(p.once(*sql, "n"));
}

// The taker of the expired row comes first, by steps: the run's `done` waits for it, and finds its term gone.
FUNCTIONS_CASE("once: a run that is overtaken while it records finds no term, and leaves the other's alone") {
  Place const p;
  auto const late = p.session();
  auto const next = p.session();
  auto const old = p.once(*late, "n");
  REQUIRE(old);
  p.expire("n");
  CHECK(next->run("BEGIN;").empty());
  auto const theirs = p.once(*next, "n");
  REQUIRE(theirs);
  late->send(p.done_text("n", *old, "late"));
  CHECK_FALSE(late->reply(200ms));  // it waits for the takeover
  CHECK(next->run("COMMIT;").empty());
  CHECK(late->reply().value_or("").find(p.lost()) != std::string::npos);
  CHECK(next->run(p.done_text("n", *theirs, "theirs")).empty());
  CHECK(late->run(p.once_text("n")) == "||1|theirs");
}

// First done, not committed; then the library's take of the row, which has expired meanwhile: it is not had.
FUNCTIONS_CASE("once: nobody takes a run over while its record is not committed") {
  Place const p;
  auto const sql = p.session();
  auto const term = p.once(*sql, "n");
  REQUIRE(term);
  p.expire("n");
  CHECK(sql->run("BEGIN;").empty());
  CHECK(sql->run(p.done_text("n", *term, "r")).empty());
  CHECK_FALSE(p.manager()->make_mutex("n", {.strategy = strategy::once}).try_acquire());
  CHECK(p.session()->run(p.once_text("n")).empty());
  CHECK(sql->run("COMMIT;").empty());
  CHECK(p.manager()->make_mutex("n", {.strategy = strategy::once}).try_acquire().status() ==
        acquire_status::done);
}

// rowlock run on real databases: what it ends with, what it says, and who works when.

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "cli/place.hpp"
#include "support/database_server.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

json held_locks(place const& p) { return json::parse(p.rowlock({"list", "--json"}).out); }

/// Something that holds `name` until it is told to end.
std::int64_t token_of(json const& lock) { return lock["token"]; }

std::int64_t number_in(std::string const& path) { return std::strtoll(read_file(path).c_str(), nullptr, 10); }

}  // namespace

CLI_CASE("run: the command's status, with the lock held meanwhile and given back after") {
  Place const p;
  auto const r = p.rowlock(
      {"run", "n", "--", "sh", "-c", "echo \"$ROWLOCK_NAME $ROWLOCK_TOKEN $ROWLOCK_TERM\"; exit 7"});
  CHECK(r.status == 7);
  CHECK(r.err.empty());
  CHECK(held_locks(p).empty());
  holder h(p, {"--note", "a note", "n"});
  auto const locks = held_locks(p);
  REQUIRE(locks.size() == 1);
  CHECK(locks[0]["name"] == "n");
  CHECK(locks[0]["state"] == "held");
  CHECK(locks[0]["note"] == "a note");
  CHECK(locks[0]["owner"]["pid"] == h.pid());
  CHECK(token_of(locks[0]) > std::strtoll(r.out.c_str() + 2, nullptr, 10));
  h.signal(SIGTERM);
  CHECK(h.wait() == 128 + SIGTERM);
  CHECK(held_locks(p).empty());
}

CLI_CASE("run --and: both locks or none, and both given back") {
  Place const p;
  {
    holder h(p, {"a", "--and", "b"});
    CHECK(held_locks(p).size() == 2);
    auto const one = p.rowlock({"run", "-n", "b", "--", "true"});
    CHECK(one.status == 75);
    auto const both = p.rowlock({"run", "-n", "c", "--and", "b", "--", "true"});
    CHECK(both.status == 75);
    CHECK(both.says("'b' is held by"));
    CHECK(p.rowlock({"run", "--wait", "100ms", "c", "--and", "b", "--", "true"})
              .says("'b' could not be taken"));
    CHECK(p.rowlock({"run", "-n", "c", "--and", "d", "--and", "e", "--", "sh", "-c", "exit 5"}).status == 5);
    CHECK(held_locks(p).size() == 2);
    h.signal(SIGTERM);
    CHECK(h.wait() == 128 + SIGTERM);
  }
  CHECK(held_locks(p).empty());
  CHECK(p.rowlock({"run", "a", "--and", "a", "--", "true"}).status == 64);
  CHECK(p.rowlock({"run", "--strategy", "unique_insert", "x", "--and", "y", "--", "true"}).status == 78);
}

CLI_CASE("run --and: the command ends when one of them is lost, which is named") {
  Place const p;
  holder h(p, {"--ttl", "9s", "--grace", "100ms", "a", "--and", "b"});
  CHECK(p.rowlock({"release", "--force", "b"}).status == 0);
  CHECK(h.wait() == 76);
  CHECK(h.err().find("the lock 'b' was lost") != std::string::npos);
  CHECK(held_locks(p).empty());
}

CLI_CASE("run: 126 and 127, and the lock is free again") {
  Place const p;
  auto const missing = p.rowlock({"run", "n", "--", "no-such-command"});
  CHECK(missing.status == 127);
  CHECK(missing.says("rowlock: cannot run 'no-such-command': No such file"));
  auto const refused = p.rowlock({"run", "n", "--", "/etc/passwd"});
  CHECK(refused.status == 126);
  CHECK(refused.says("Permission denied"));
  CHECK(held_locks(p).empty());
}

CLI_CASE("run: 75 with --no-wait and after --wait, naming who, since when and how long") {
  Place const p;
  holder h(p, {"--note", "why", "n"});
  auto const busy = p.rowlock({"run", "--no-wait", "n", "--", "true"});
  CHECK(busy.status == 75);
  auto const began = std::chrono::steady_clock::now();
  auto const late = p.rowlock({"run", "--wait", "500ms", "n", "--", "true"});
  CHECK(late.status == 75);
  CHECK(seconds_since(began) > 0.45);
  CHECK(seconds_since(began) < 25);
  for (auto const& said : {busy, late}) {
    CAPTURE(said.err);
    CHECK(said.says(fmt::format("pid {} since 20", h.pid())));
    CHECK(said.says("s more at most"));
    CHECK(said.says("(why)"));
  }
}

CLI_CASE("run: waits until the holder is done") {
  Place const p;
  holder h(p, {"n"}, "echo ready; sleep 0.7; echo done");
  auto const r = p.rowlock({"run", "n", "--", "date", "+%s"});
  CHECK(r.status == 0);
  CHECK(h.wait() == 0);
  CHECK(h.out() == "ready\ndone\n");
}

CLI_CASE("run: a signal while it waits ends it as that signal would, with nothing taken") {
  Place const p;
  holder const h(p, {"n"});
  for (int const signal : {SIGINT, SIGTERM, SIGHUP}) {
    program waiter(p.command({"run", "n", "--", "true"}), p.variables());
    CHECK_FALSE(within(300ms, [&] { return !alive(waiter.pid()); }));
    waiter.signal(signal);
    waiter.wait();
    CHECK(waiter.died_of() == signal);
  }
  CHECK(held_locks(p).size() == 1);
}

CLI_CASE("run: SIGINT that the command dies of is seen by the shell") {
  Place const p;
  holder h(p, {"n"}, "echo ready; kill -INT $$");
  CHECK(h.wait() == 128 + SIGINT);
  CHECK(h.died_of() == SIGINT);
  CHECK(held_locks(p).empty());
}

CLI_CASE("run: 76 when an operator takes the lock away, even if the command then ends well") {
  Place const p;
  holder h(p, {"--ttl", "9s", "n"}, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done");
  auto const released = p.rowlock({"release", "--force", "n"});
  CHECK(released.status == 0);
  CHECK(released.out.find(fmt::format("pid {}", h.pid())) != std::string::npos);
  CHECK(h.wait() == 76);
  CHECK(h.err().find("rowlock: the lock 'n' was lost: an operator asked for it back") != std::string::npos);
  CHECK(held_locks(p).empty());
}

CLI_CASE("run: 76 when the row is deleted or another term is in it") {
  Place const p;
  for (auto const* sql : {"DELETE FROM rowlock_locks", "UPDATE rowlock_locks SET term = 'x'"}) {
    holder h(p, {"--ttl", "9s", "n"});
    p.sql(sql);
    CHECK(h.wait() == 76);
    // At the next renewal, a third of the ttl, which finds out why; and not at its end.
    auto const said = h.err();
    CAPTURE(said);
    bool const why =
        said.find("the lock 'n' was lost: its row, or the file that it was in, is gone") != said.npos ||
        said.find("the lock 'n' was lost: another owner has it") != said.npos;
    CHECK(why);
    p.sql("UPDATE rowlock_locks SET term = NULL");
  }
}

CLI_CASE("run: 76 after it was stopped for longer than the ttl") {
  Place const p;
  holder h(p, {"--ttl", "4s", "n"});
  h.signal(SIGSTOP);
  CHECK_FALSE(within(4500ms, [&] { return !alive(h.pid()); }));
  h.signal(SIGCONT);
  CHECK(h.wait() == 76);
  CHECK(h.err().find("not renewed in time") != std::string::npos);
}

CLI_CASE("run: 70 when the guardian is killed, and nothing of the command is left") {
  Place const p;
  scratch_folder folder;
  holder h(p, {"n"}, fmt::format("(setsid sleep 71{} &); echo ready; sleep 100", ::getpid()));
  auto const guardian = guardian_of(h.pid());
  REQUIRE(guardian > 0);
  ::kill(guardian, SIGKILL);
  CHECK(h.wait() == 70);
  CHECK(h.err().find("guardian") != std::string::npos);
  CHECK_FALSE(any_process_with(fmt::format("71{}", ::getpid())));
  CHECK(held_locks(p).empty());
}

CLI_CASE("run: 78 for tables that are missing, old or new, and for another strategy, with what mends it") {
  Place const p(false);
  if (p.url().rfind("sqlite:", 0) == 0) REQUIRE(p.rowlock({"migrate", "up"}).status == 0);
  if (p.url().rfind("sqlite:", 0) == 0) REQUIRE(p.rowlock({"migrate", "down", "--to", "0"}).status == 0);
  auto const missing = p.rowlock({"run", "n", "--", "true"});
  CHECK(missing.status == 78);
  CHECK(missing.says("`rowlock migrate up"));
  REQUIRE(p.rowlock({"migrate", "up"}).status == 0);
  p.sql("UPDATE rowlock_meta SET schema_version = 1");
  auto const old = p.rowlock({"run", "n", "--", "true"});
  CHECK(old.status == 78);
  CHECK(old.says("`rowlock migrate up"));
  p.sql("UPDATE rowlock_meta SET schema_version = 2");
  CHECK(p.rowlock({"run", "n", "--", "true"}).status == 0);
  p.sql("UPDATE rowlock_locks SET strategy = 'unique_insert'");
  auto const other = p.rowlock({"run", "n", "--", "true"});
  CHECK(other.status == 78);
  CHECK(other.says("unique_insert"));
  p.sql("UPDATE rowlock_meta SET schema_version = 99, oldest_reader = 99");
  auto const too_new = p.rowlock({"run", "m", "--", "true"});
  CHECK(too_new.status == 78);
  CHECK(too_new.says("newer rowlock"));
}

TEST_CASE("run: the WAL of an SQLite file is removed while a holder has it open: 76 at the next renewal") {
  on_sqlite const p;
  holder h(p, {"--ttl", "9s", "n"});
  REQUIRE(held_locks(p).size() == 1);
  for (auto const* end : {"-wal", "-shm"}) REQUIRE(std::filesystem::remove(p.file() + end));
  CHECK(p.rowlock({"run", "--no-wait", "other", "--", "true"}).status == 0);
  CHECK(h.wait() == 76);
  CHECK(h.err().find("its row, or the file that it was in, is gone") != std::string::npos);
  CHECK(p.rowlock({"run", "--no-wait", "n", "--", "true"}).status == 0);
}

TEST_CASE("run: 69 when the server can't be reached [postgresql]") {
  auto const r = run({rowlock_program, "--db", "host=127.0.0.1 port=1", "run", "n", "--", "true"});
  CHECK(r.status == 69);
  CHECK(r.says("port=1"));
}

TEST_CASE("run: 77 when the login is refused [postgresql]") {
  auto const r = run({rowlock_program, "run", "n", "--", "true"},
                     {{"ROWLOCK_DB", postgresql_conninfo() + " user=no_such_role"}});
  CHECK(r.status == 77);
  CHECK(r.says("no_such_role"));
}

TEST_CASE(
    "run: an outage shorter than the ttl changes nothing, a longer one ends the command in time with 76; a "
    "waiter rides it out, "
    "or ends with 75 at its deadline [postgresql]") {
  database_server server{server_kind::postgresql};
  environment const env{{"ROWLOCK_DB", server.address()}};
  REQUIRE(run({rowlock_program, "migrate", "up"}, env).status == 0);
  scratch_folder folder;
  program holds({rowlock_program, "run", "--ttl", "30s", "n", "--", "sh", "-c",
                 "echo ready; while [ ! -e " + folder.file("end") + " ]; do sleep 0.1; done; exit 5"},
                env);
  REQUIRE(holds.prints("ready"));
  program waits({rowlock_program, "run", "n", "--", "sh", "-c", "exit 6"}, env);
  CHECK_FALSE(within(700ms, [&] { return !alive(waits.pid()); }));  // it has come to wait
  server.kill();
  CHECK_FALSE(within(1s, [&] { return !alive(holds.pid()) || !alive(waits.pid()); }));
  server.restart();
  CHECK_FALSE(within(3s, [&] { return !alive(holds.pid()) || !alive(waits.pid()); }));
  std::ofstream(folder.file("end")) << "";
  CHECK(holds.wait() == 5);
  CHECK(waits.wait() == 6);

  program loses({rowlock_program, "run", "--ttl", "6s", "m", "--", "sh", "-c", "echo ready; sleep 100"}, env);
  REQUIRE(loses.prints("ready"));
  program gives_up({rowlock_program, "run", "--wait", "20s", "m", "--", "true"}, env);
  {
    // Who it is that holds the lock is asked by those alone that have found it held.
    using namespace rowlock;
    auto const watch = source_from_url(server.address()).implementation()->connect(boot_clock::now() + 60s);
    backend::statement const asked{
        "asked",
        // The server keeps no more than the first 1,024 characters.
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT name, left(strategy%' "
        "AND pid <> pg_backend_pid()"};
    REQUIRE(within(60s, [&] {
      return backend::as_int(watch->execute(asked, {}, boot_clock::now() + 60s).rows.at(0).at(0)) > 0;
    }));
  }
  server.kill();
  auto const began = std::chrono::steady_clock::now();
  CHECK(loses.wait() == 76);
  CHECK(seconds_since(began) < 30);
  CHECK(loses.err().find("could not be renewed in time") != std::string::npos);
  CHECK(gives_up.wait() == 75);
  CHECK(gives_up.err().find("within 20s") != std::string::npos);
}

CLI_CASE("run: show 2, many at once that add to a number lose no update") {
  Place const p;
  scratch_folder folder;
  for (auto const& strategy : p.strategies()) {
    CAPTURE(strategy);
    std::ofstream(folder.file("f")) << "0\n";
    auto const script = fmt::format("v=$(cat {0}); sleep 0.01; echo $((v+1)) >{0}", folder.file("f"));
    std::vector<std::unique_ptr<program>> all;
    // A program's start takes most of it, and fifty at once on a server told nothing more than these do.
    int const count = strategy == "lease" && p.dialect() == "sqlite" ? 50 : 8;
    for (int i = 0; i < count; ++i)
      all.push_back(std::make_unique<program>(
          p.command({"run", "--strategy", strategy, strategy, "--", "sh", "-c", script}), p.variables()));
    for (auto& one : all) {
      CHECK(one->wait() == 0);
      CHECK(one->err() == "");
    }
    CHECK(number_in(folder.file("f")) == count);
  }
}

CLI_CASE(
    "run: --strategy row_lock where there are row locks, and 64 or 78 with the way out where it can't be") {
  Place const p;
  auto const r = p.rowlock({"run", "--strategy", "row_lock", "n", "--", "sh", "-c", "echo $ROWLOCK_TOKEN"});
  if (p.strategies().size() < 3) {
    CHECK(r.status == 78);
    CHECK(r.says("use lease or unique_insert"));
    return;
  }
  CHECK(r.status == 0);
  CHECK(std::strtoll(r.out.c_str(), nullptr, 10) > 0);
  CHECK(r.err.empty());
  CHECK(p.rowlock({"run", "--strategy", "row_lock", "--at-least", "1s", "n", "--", "true"}).status == 64);
  CHECK(p.rowlock({"run", "--strategy", "row_lock", "--note", "x", "n", "--", "true"}).status == 64);
  holder h(p, {"--strategy", "row_lock", "n"});
  auto const busy = p.rowlock({"run", "--no-wait", "--strategy", "row_lock", "n", "--", "true"});
  CHECK(busy.status == 75);
  CHECK(busy.says("database session"));
  CHECK(busy.says("until its connection ends"));
  CHECK(p.rowlock({"run", "--no-wait", "n", "--", "true"}).says("is in use with strategy row_lock"));
  auto const listed = p.rowlock({"list"});
  CHECK(listed.out.find("with its session") != std::string::npos);
  CHECK(p.rowlock({"release", "--force", "n"}).status == 78);
  // Killed: the lock is free as soon as the server sees the connection end; the command ends first.
  program next(p.command({"run", "--strategy", "row_lock", "n", "--", "true"}), p.variables());
  h.signal(SIGKILL);
  CHECK(next.wait() == 0);
}

CLI_CASE("run: show 4, K6 and K10, the former holder's descendants are silent before the next owner begins") {
  for (int const signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    Place const p;
    scratch_folder folder;
    auto const lines = folder.file("lines");
    auto const script = fmt::format(
        "echo $ROWLOCK_TOKEN >{0}; (setsid sh -c 'trap \"\" TERM; while :; do date +%s%N >>{1}; sleep 0.01; "
        "done' >/dev/null 2>&1 &); "
        "while [ ! -s {1} ]; do sleep 0.01; done; echo ready; sleep 100",
        folder.file("token"), lines);
    // The margin, a tenth, is what a busy machine may take to run the guardian.
    holder h(p, {"--ttl", "15s", "n"}, script);
    program next(p.command({"run", "n", "--", "sh", "-c", "date +%s%N; echo $ROWLOCK_TOKEN"}), p.variables());
    CHECK_FALSE(within(500ms, [&] { return !alive(next.pid()); }));
    h.signal(signal);
    CHECK(next.wait() == 0);
    auto const out = next.out();
    auto const written = read_file(lines);
    auto const last = written.substr(written.rfind('\n', written.size() - 2) + 1);
    CHECK(std::strtoll(last.c_str(), nullptr, 10) < std::strtoll(out.c_str(), nullptr, 10));
    CHECK(std::strtoll(out.c_str() + out.find('\n'), nullptr, 10) > number_in(folder.file("token")));
    CHECK_FALSE(any_process_with(lines, h.pid()));
    h.signal(SIGCONT);
  }
}

CLI_CASE("run: --at-least keeps the name taken") {
  Place const p;
  auto const began = std::chrono::steady_clock::now();
  CHECK(p.rowlock({"run", "--at-least", "6s", "n", "--", "true"}).status == 0);
  CHECK(p.rowlock({"run", "--no-wait", "n", "--", "true"}).status == 75);
  CHECK(p.rowlock({"run", "n", "--", "true"}).status == 0);
  CHECK(seconds_since(began) > 6);
}

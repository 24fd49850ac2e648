// take, renew and release --term: a lock for the middle of a script.

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

/// What `rowlock take NAME --json MORE` said.
json take(place const& p, std::string const& name, words more = {"--ttl", "1m"}) {
  more.insert(more.begin(), {"take", name, "--json"});
  auto const done = p.rowlock(more);
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  return json::parse(done.out);
}

json state_of(place const& p, std::string const& name) {
  for (auto const& lock : json::parse(p.rowlock({"list", "--json"}).out))
    if (lock["name"] == name) return lock;
  return {};
}

}  // namespace

CLI_CASE("take: the lock stays taken, is renewed, and is given back by its term") {
  Place const p;
  auto const mine = take(p, "n", {"--ttl", "1m", "--note", "by hand"});
  CHECK(mine["name"] == "n");
  CHECK(mine["ttl_ms"] == 60'000);
  CHECK(mine["token"] > 0);
  CHECK(state_of(p, "n")["state"] == "held");
  CHECK(state_of(p, "n")["note"] == "by hand");
  CHECK(p.rowlock({"run", "-n", "n", "--", "true"}).status == 75);
  CHECK(p.rowlock({"take", "-n", "n", "--ttl", "1m"}).status == 75);
  CHECK(p.rowlock({"take", "-nE9", "n", "--ttl", "1m"}).status == 9);

  p.sql("UPDATE rowlock_locks SET renewals = 0");
  std::string const term = mine["term"];
  auto const renewed = p.rowlock({"renew", "n", "--term", term});
  CHECK(renewed.status == 0);
  CHECK(renewed.out.empty());
  CHECK(renewed.err.empty());
  CHECK(json::parse(p.rowlock({"renew", "n", "--term", term, "--json"}).out)["renewed"] == true);
  CHECK(p.rowlock({"release", "n", "--term", term}).status == 0);
  CHECK(state_of(p, "n").is_null());
  CHECK(take(p, "n")["token"] > mine["token"]);
}

CLI_CASE("take: what is not ours any more is neither renewed nor given back: 76, and who has it") {
  Place const p;
  std::string const term = take(p, "n")["term"];
  REQUIRE(p.rowlock({"release", "--force", "n"}).status == 0);
  auto const asked_back = p.rowlock({"renew", "n", "--term", term});
  CHECK(asked_back.status == 76);
  CHECK(asked_back.says("'n' was lost before it was renewed: an operator asked for it back"));

  REQUIRE(p.rowlock({"release", "--force", "--now", "n"}).status == 0);
  CHECK(p.rowlock({"renew", "n", "--term", term}).says("it has no holder now"));
  holder const other(p, {"n"});
  for (std::string const command : {"renew", "release"}) {
    CAPTURE(command);
    auto const lost = p.rowlock({command, "n", "--term", term, "--json"});
    CHECK(lost.status == 76);
    CHECK(lost.says(fmt::format("pid {}", other.pid())));
    CHECK(json::parse(lost.out)[command == "renew" ? "renewed" : "released"] == false);
  }
  CHECK(state_of(p, "n")["owner"]["pid"] == other.pid());
}

CLI_CASE("take: a shell script keeps it over its commands, and gives it back however it ends") {
  Place const p;
  std::string options;
  for (auto const& word : p.options()) options += " '" + word + "'";
  auto const script = fmt::format(R"(
    set -u
    lock=$('{0}'{1} take "it's mine" --ttl 1m -n) || exit
    eval "$lock"
    trap "'{0}'{1} release \"it's mine\" --term $ROWLOCK_TERM" EXIT
    '{0}'{1} run -n "it's mine" -- true
    echo "$ROWLOCK_NAME $? $ROWLOCK_TOKEN"
    '{0}'{1} renew "$ROWLOCK_NAME" --term "$ROWLOCK_TERM" && exit 5)",
                                  rowlock_program, options);
  auto const done = run({"sh", "-c", script}, p.variables());
  CAPTURE(done.err);
  CHECK(done.status == 5);
  CHECK(done.out.starts_with("it's mine 75 "));
  CHECK(state_of(p, "it's mine").is_null());
  holder const other(p, {"it's mine"});
  CHECK(run({"sh", "-c", script}, p.variables()).status == 75);
}

CLI_CASE("take: it waits, and a signal while it does ends it with nothing taken") {
  Place const p;
  holder h(p, {"n"});
  CHECK(p.rowlock({"take", "n", "--ttl", "1m", "--wait", "300ms"}).says("could not be taken within 300ms"));
  program waits(p.command({"take", "n", "--ttl", "1m"}), p.variables());
  program ended(p.command({"take", "n", "--ttl", "1m", "--note", "is to be ended"}), p.variables());
  auto const words_of_it = fmt::format("/proc/{}/cmdline", ended.pid());
  REQUIRE(within(60s, [&] {  // no fork of this test any more
    return read_file(words_of_it).find("is to be ended") != std::string::npos;
  }));
  ended.signal(SIGTERM);
  CHECK(ended.wait() == 128 + SIGTERM);
  h.signal(SIGTERM);
  CHECK(waits.wait() == 0);
  CHECK(waits.out().find("ROWLOCK_NAME=n\n") != std::string::npos);
}

CLI_CASE("take: what nobody can be told of is given back: 74") {
  Place const p;
  std::string options;
  for (auto const& word : p.options()) options += " '" + word + "'";
  for (std::string const more : {" >/dev/full", " --json >/dev/full", " >&-"}) {
    auto const untold = run(
        {"sh", "-c", fmt::format("'{}'{} take n --ttl 1m{}", rowlock_program, options, more)}, p.variables());
    CHECK(untold.status == 74);
    CHECK(untold.says("the output could not be written"));
    CHECK(state_of(p, "n").is_null());
  }
}

CLI_CASE("take: it ends by its ttl, though nobody renews it or gives it back") {
  Place const p;
  std::string const term = take(p, "n", {"--ttl", "500ms"})["term"];
  CHECK(p.rowlock({"run", "--wait", "20s", "n", "--", "true"}).status == 0);
  CHECK(p.rowlock({"renew", "n", "--term", term}).status == 76);
}

TEST_CASE("take, renew, release --term: 64 for what is no term, no ttl, or two things at once") {
  on_sqlite const p;
  CHECK(p.rowlock({"take", "n"}).says("--ttl"));
  CHECK(p.rowlock({"take", "n", "--ttl", "1 m"}).status == 64);
  CHECK(p.rowlock({"take", "n", "--ttl", "1ms"}).status == 64);
  CHECK(p.rowlock({"take", "", "--ttl", "1m"}).status == 64);
  CHECK(p.rowlock({"renew", "n"}).says("--term"));
  for (std::string const wrong :
       {"", "x", "0123456789abcdef0123456789abcde", "0123456789ABCDEF0123456789ABCDEF"})
    for (std::string const command : {"renew", "release"}) {
      CAPTURE(command + wrong);
      CHECK(p.rowlock({command, "n", "--term", wrong}).status == 64);
    }
  CHECK(p.rowlock({"release", "n", "--force", "--term", std::string(32, 'a')}).status == 64);
}

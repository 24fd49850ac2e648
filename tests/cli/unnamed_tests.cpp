// Databases that nobody has named, and names that nobody may take.

#include <algorithm>

#include "cli/place.hpp"

using namespace rowlock::test;

TEST_CASE("C78: no database is named: what only looks says which file it looks at; what acts does nothing") {
  scratch_folder const home;
  environment const env{{"HOME", home.path().string()}};
  auto const call = [&](words args, environment const& e) {
    args.insert(args.begin(), rowlock_program);
    return run(std::move(args), e);
  };
  auto const file = home.file(".local/state/rowlock/locks.db");
  for (words const& args : {words{"list"},
                            {"list", "--json"},
                            {"list", "--reaper"},
                            {"list", "--metrics"},
                            {"leader", "n"},
                            {"migrate", "status"}}) {
    auto const r = call(args, env);
    CHECK((r.status == 0 || r.status == 1));
    CHECK(r.says("rowlock: no database is named, so this is about this host's own file, " + file));
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
    for (auto const* local : {"--db", "ROWLOCK_DB"}) {
      auto more = args;
      auto with = env;
      if (local == std::string("--db"))
        more.insert(more.end(), {"--db", "local"});
      else
        with.emplace("ROWLOCK_DB", "local");
      CHECK(call(more, with).err.empty());
    }
  }
  auto const renewed = call({"renew", "n", "--term", std::string(32, 'a')}, env);
  CHECK(renewed.says("no database is named"));
  for (words const& args : {words{"reap"}, {"reap", "--dry-run"}, {"release", "--force", "n"}, {"doctor"}}) {
    auto const r = call(args, env);
    CHECK(r.status == 64);
    CHECK(r.out.empty());
    CHECK(r.says("no database is named, and nothing was done"));
    CHECK(r.says("--db local"));
    auto more = args;
    more.insert(more.end(), {"--db", "local"});
    auto const named = call(more, env);
    CHECK(named.status != 64);
    CHECK(named.err.empty());
  }
}

TEST_CASE("C80: names that rowlock keeps for itself: 64 by all commands that take a lock") {
  on_sqlite const p;
  for (words const& args : {words{"run", "rowlock.reaper", "--", "true"},
                            {"run", "a", "--and", "rowlock.reaper", "--", "true"},
                            {"run", "--permits", "2", "rowlock.x", "--", "true"},
                            {"once", "rowlock.x", "--for", "1d", "--", "true"},
                            {"lead", "rowlock.x", "--", "true"},
                            {"take", "rowlock.x", "--ttl", "1m"}}) {
    auto const r = p.rowlock(args);
    CHECK(r.status == 64);
    CHECK(r.says("is a name of rowlock's own"));
  }
  CHECK(p.rowlock({"list", "--all", "--json"}).out == "[]\n");
  CHECK(p.rowlock({"run", "rowlock", "--", "true"}).status == 0);
}

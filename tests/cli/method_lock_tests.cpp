// Old programs that INSERT into and DELETE from a hand-made table, and new ones, exclude each other while
// both run.
#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "cli/place.hpp"
#include "support/source_path.hpp"

using namespace rowlock::test;

namespace {

/// What the articles recommend, and a lock that is held when the triggers come.
void make_old_table(place const& p) {
  p.sql(p.old_lock_table());
  p.sql("INSERT INTO methodLock (method_name) VALUES ('held before')");
  p.sql(read_file(source_path(fmt::format("schema/{}-method-lock.sql", p.dialect()))));
}

bool old_take(place const& p, std::string const& name) try {
  p.sql("INSERT INTO methodLock (method_name) VALUES ('" + name + "')");
  return true;
} catch (std::exception const&) {
  return false;
}

void old_give_back(place const& p, std::string const& name) {
  p.sql("DELETE FROM methodLock WHERE method_name = '" + name + "'");
}

finished new_take(place const& p, std::string const& name, words more = {}) {
  words all{"run", "--no-wait", "--strategy", "unique_insert"};
  all.insert(all.end(), more.begin(), more.end());
  all.insert(all.end(), {name, "--", "true"});
  return p.rowlock(all);
}

}  // namespace

SERVER_CASE("methodLock: a name that an old program holds is busy for new ones, and the other way round") {
  Place const p;
  make_old_table(p);
  auto const busy = new_take(p, "held before");
  CHECK(busy.status == 75);
  CHECK(busy.says("methodLock"));
  old_give_back(p, "held before");
  CHECK(new_take(p, "held before").status == 0);

  REQUIRE(old_take(p, "n"));
  CHECK_FALSE(old_take(p, "n"));
  CHECK(new_take(p, "n").status == 75);
  old_give_back(p, "n");
  program held(
      p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", "echo ready; exec sleep 100"}),
      p.variables());
  REQUIRE(held.prints("ready"));
  CHECK_FALSE(old_take(p, "n"));
  held.signal(SIGTERM);
  CHECK(held.wait() == 128 + SIGTERM);
  CHECK(old_take(p, "n"));
}

SERVER_CASE("methodLock: what a new program left behind can be had by old ones when it has expired") {
  Place const p;
  make_old_table(p);
  program held(p.command({"run", "--ttl", "1s", "--strategy", "unique_insert", "n", "--", "sh", "-c",
                          "echo ready; exec sleep 100"}),
               p.variables());
  REQUIRE(held.prints("ready"));
  held.signal(SIGKILL);
  CHECK_FALSE(old_take(p, "n"));
  CHECK(within(10s, [&] { return old_take(p, "n"); }));
}

SERVER_CASE("methodLock: old and new programs that add to a number lose no update") {
  constexpr int each = 12;
  Place const p;
  make_old_table(p);
  scratch_folder folder;
  auto const file = folder.file("f");
  std::ofstream(file) << "0\n";
  auto const add = fmt::format("v=$(cat {0}); sleep 0.01; echo $((v+1)) >{0}", file);
  std::vector<std::unique_ptr<program>> all;
  {
    std::vector<std::jthread> old;
    for (int i = 0; i < 2; ++i)
      old.emplace_back([&] {
        for (int done = 0; done < each; ++done) {
          while (!old_take(p, "n")) std::this_thread::sleep_for(5ms);  // as they do
          (void)run({"/bin/sh", "-c", add}, {});
          old_give_back(p, "n");
        }
      });
    for (int i = 0; i < 2 * each; ++i)
      all.push_back(std::make_unique<program>(
          p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", add}), p.variables()));
    for (auto& one : all) CHECK(one->wait() == 0);
  }
  CHECK(std::strtoll(read_file(file).c_str(), nullptr, 10) == 4 * each);
}

// Many migrators at once, and what they do to others.

#include <algorithm>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "database.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr int many = 10;

// What the ten applied altogether must be each version exactly once.
void check_once(std::multiset<int> const& all, database const& db) {
  CHECK(all == std::multiset<int>{1, 2, 3, 4, 5});
  CHECK(migrator(db.source()).validate().empty());
  CHECK(db.query("SELECT count(*) FROM rowlock_meta")[0][0] == backend::value{std::int64_t{1}});
}

}  // namespace

TEST_CASE_TEMPLATE("ten migrators in ten threads apply each version once", DB, ROWLOCK_DATABASES) {
  for (int round = 0; round < 5; ++round) {
    DB db;
    std::mutex guard;
    std::multiset<int> all;
    std::vector<std::string> problems;
    std::latch start(many);
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < many; ++i)
        threads.emplace_back([&] {
          migrator m(db.source());
          start.arrive_and_wait();
          try {
            auto const applied = m.up();
            std::scoped_lock const held(guard);
            all.insert(applied.begin(), applied.end());
          } catch (std::exception const& e) {
            std::scoped_lock const held(guard);
            problems.emplace_back(e.what());
          }
        });
    }
    CHECK(problems == std::vector<std::string>{});
    check_once(all, db);
  }
}

TEST_CASE_TEMPLATE("ten processes apply each version once, and undo each once", DB, ROWLOCK_DATABASES) {
  DB db;
  for (auto const* direction : {"up", "down", "up"}) {
    std::vector<child_process> children;
    for (int i = 0; i < many; ++i)
      children.emplace_back(
          std::vector<std::string>{ROWLOCK_MIGRATE_HELPER, db.kind(), db.address(), direction});
    std::multiset<int> all;
    for (auto& c : children) {
      int const status = c.finish();
      INFO(c.output());
      REQUIRE(status == 0);
      for (char const digit : c.output())
        if (digit != '\n') all.insert(digit - '0');
    }
    CHECK(all == std::multiset<int>{1, 2, 3, 4, 5});
  }
  check_once({1, 2, 3, 4, 5}, db);
}

TEST_CASE_TEMPLATE("what validate says while others migrate is true", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  child_process child({ROWLOCK_MIGRATE_HELPER, db.kind(), db.address(), "toggle"});
  REQUIRE(child.read_until("begin"));
  std::set<std::string> said;
  // Until each of the six states was seen, and a while longer.
  for (int looks = 0; looks < 20'000 && (looks < 300 || said.size() < 6); ++looks) {
    try {
      auto const lines = m.validate();
      // Where DDL commits, one may look in the middle of a migration, and is told so: of tables that belong
      // to two versions, or of a version that is there and not yet, or no longer, recorded.
      auto const in_the_middle = [](std::string const& line) {
        return line.find("is under way") != line.npos || line.find("recorded") != line.npos;
      };
      if (db.is_mysql() && std::ranges::any_of(lines, in_the_middle)) continue;
      said.insert(lines.empty() ? "nothing" : lines.front());
      CHECK(lines.size() <= 1);
    } catch (error const& e) {
      REQUIRE(e.reason() == errc::schema_missing);
      said.insert("no tables");
    }
  }
  child.kill();
  child.finish();
  CAPTURE(child.output());  // why it ended, if it ended by itself
  std::string all;
  for (auto const& one : said) all += one + "; ";
  CAPTURE(all);
  CHECK(said ==
        std::set<std::string>{"nothing", "no tables",
                              "the tables are at version 1, this program has 5: run `rowlock migrate up`",
                              "the tables are at version 2, this program has 5: run `rowlock migrate up`",
                              "the tables are at version 3, this program has 5: run `rowlock migrate up`",
                              "the tables are at version 4, this program has 5: run `rowlock migrate up`"});
}

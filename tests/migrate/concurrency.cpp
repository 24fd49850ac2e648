// Many migrators at once, and what they do to others.

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "database.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr int many = 10;

// What the ten applied altogether must be each version exactly once.
void check_once(std::multiset<int> const& all, database const& db) {
  CHECK(all == std::multiset<int>(every_up.begin(), every_up.end()));
  CHECK(migrator(db.source()).validate().empty());
  CHECK(db.query("SELECT count(*) FROM rowlock_meta")[0][0] == backend::value{std::int64_t{1}});
}

/// Somebody who migrates between the looks of another: meta is looked at only while it is absent, the others
/// only while they are there. Gives up where it may not migrate.
class overtaker {
 public:
  explicit overtaker(database const& db)
      : migrator_(db.source(), {.timeout = std::chrono::milliseconds(1000)}) {}

  void before(std::string_view statement, std::span<backend::value const> parameters) {
    if (statement != "migrate_columns" || steps_ == 0) return;
    --steps_;
    auto const* const table = std::get_if<std::string>(&parameters[0]);
    REQUIRE(table);
    try {
      if (table->find("rowlock_meta") != table->npos)
        migrator_.down(0, true, true);
      else
        migrator_.up();
    } catch (error const& e) {
      REQUIRE(e.reason() == errc::row_locked);
      ++kept_out_;
    }
  }
  int kept_out() const { return kept_out_; }

 private:
  migrator migrator_;
  int steps_ = 14;  // one whole look, and what the next one begins with
  int kept_out_ = 0;
};

using before_each =
    std::function<void(std::string_view statement, std::span<backend::value const> parameters)>;

class overtaken_connection final : public backend::connection {
 public:
  overtaken_connection(std::unique_ptr<connection> real, before_each before)
      : real_(std::move(real)), before_(std::move(before)) {}

  backend::result execute(backend::statement const& s, std::span<backend::value const> p,
                          boot_time_point) override {
    before_(s.name, p);
    return real_->execute(s, p, boot_clock::now() + std::chrono::seconds(60));
  }
  void script(std::string_view sql, boot_time_point deadline) override { real_->script(sql, deadline); }
  std::optional<std::string> find_schema(std::string const& table, bool or_new,
                                         boot_time_point deadline) override {
    return real_->find_schema(table, or_new, deadline);
  }
  bool usable() const noexcept override { return real_->usable(); }
  std::string const& server_identity() const noexcept override { return real_->server_identity(); }
  void close() noexcept override { real_->close(); }

 private:
  std::unique_ptr<connection> real_;
  before_each before_;
};

class overtaken_source final : public backend::source {
 public:
  overtaken_source(database const& db, before_each before)
      : real_(db.source().implementation()), before_(std::move(before)) {}
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    return std::make_unique<overtaken_connection>(real_->connect(deadline), before_);
  }
  backend::dialect const& sql() const noexcept override { return real_->sql(); }
  std::string describe() const override { return real_->describe(); }

 private:
  std::shared_ptr<backend::source> real_;
  before_each before_;
};

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
          // A version that is applied while the reply is lost is reported by no migrator.
          migrator m(db.source(), {.timeout = std::chrono::minutes(10)});
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
    CHECK(all == std::multiset<int>(every_up.begin(), every_up.end()));
  }
  check_once({every_up.begin(), every_up.end()}, db);
}

// SQLite's reader has one snapshot of everything.
TEST_CASE_TEMPLATE("validate, overtaken between its looks, tells of no state that never was", DB,
                   postgresql_database, mariadb_database, mysql_database) {
  DB db;
  migrator(db.source()).up();
  overtaker other(db);
  connection_source const source(std::make_shared<overtaken_source>(
      db, [&other](auto statement, auto parameters) { other.before(statement, parameters); }));
  try {
    CHECK(migrator(source).validate() == std::vector<std::string>{});
  } catch (error const& e) {
    CHECK(std::string(e.what()).find("there is no table") != std::string::npos);
  }
  CHECK(other.kept_out() > 0);
}

// Where DDL commits a migration that makes a routine anew drops it first.
TEST_CASE_TEMPLATE("validate, between a routine's end and its new beginning, does not miss it", DB,
                   mariadb_database, mysql_database) {
  DB db;
  migrator other(db.source());
  other.up();
  bool gone = false;
  bool refused = false;
  bool back = false;
  connection_source const source(std::make_shared<overtaken_source>(db, [&](auto statement, auto) {
    if (statement == "migrate_routines_missing" && !std::exchange(gone, true))
      db.script("DROP PROCEDURE rowlock_renew");
    if (statement == "migrate_enter" && !std::exchange(refused, true))
      throw error(errc::row_locked, "as the other one's step is under way");
    if (refused && !std::exchange(back, true)) other.up();
  }));
  CHECK(migrator(source).validate() == std::vector<std::string>{});
  CHECK(gone);
  CHECK(back);
}

TEST_CASE_TEMPLATE("what validate says while others migrate is true", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  child_process child({ROWLOCK_MIGRATE_HELPER, db.kind(), db.address(), "toggle"});
  REQUIRE(child.read_until("begin"));
  std::set<std::string> said;
  // Until each of the four states was seen, and a while longer.
  for (int looks = 0; looks < 20'000 && (looks < 100 || said.size() < 4); ++looks) {
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
                              "the tables are at version 1, this program has 3: run `rowlock migrate up`",
                              "the tables are at version 2, this program has 3: run `rowlock migrate up`"});
}

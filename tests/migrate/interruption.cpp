// Migrators that die, and replies that are lost.

#include <random>

#include "database.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A real session whose COMMITs are cut off: before they are sent, or before the reply arrives.
class cut_connection final : public backend::connection {
 public:
  cut_connection(std::unique_ptr<connection> real, int& cuts, bool committed)
      : real_(std::move(real)), cuts_(cuts), committed_(committed) {}

  backend::result execute(backend::statement const& s, std::span<backend::value const> p,
                          boot_time_point deadline) override {
    changes_ = changes_ || s.name == "migrate_record" || s.name == "migrate_forget";
    return real_->execute(s, p, deadline);
  }
  void script(std::string_view sql, boot_time_point deadline) override {
    if (sql != "COMMIT" || !changes_ || cuts_ == 0) return real_->script(sql, deadline);
    --cuts_;
    if (committed_) real_->script(sql, deadline);
    real_.reset();
    throw error(errc::in_doubt, "cut by the test");
  }
  std::optional<std::string> find_schema(std::string const& table, bool or_new,
                                         boot_time_point deadline) override {
    return real_->find_schema(table, or_new, deadline);
  }
  bool usable() const noexcept override { return real_ && real_->usable(); }
  std::string const& server_identity() const noexcept override { return real_->server_identity(); }
  void close() noexcept override { real_->close(); }

 private:
  std::unique_ptr<connection> real_;
  int& cuts_;
  bool committed_;
  bool changes_ = false;
};

class cut_source final : public backend::source {
 public:
  cut_source(database const& db, int cuts, bool committed)
      : real_(db.source().implementation()), cuts_(cuts), committed_(committed) {}
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    return std::make_unique<cut_connection>(real_->connect(deadline), cuts_, committed_);
  }
  backend::dialect const& sql() const noexcept override { return real_->sql(); }
  std::string describe() const override { return real_->describe(); }
  void create_if_missing() override { real_->create_if_missing(); }

 private:
  std::shared_ptr<backend::source> real_;
  int cuts_;
  bool committed_;
};

}  // namespace

TEST_CASE_TEMPLATE("a COMMIT whose reply is lost is found out and counted once", DB, ROWLOCK_DATABASES) {
  for (bool const committed : {true, false}) {
    CAPTURE(committed);
    DB db;
    auto const cut = [&](int cuts) {
      return connection_source(std::make_shared<cut_source>(db, cuts, committed));
    };
    CHECK(migrator(cut(1)).up() == every_up);
    CHECK(migrator(db.source()).validate().empty());
    CHECK(migrator(cut(2)).down(0) == every_down);
    CHECK(migrator(cut(2)).up() == every_up);
    CHECK(migrator(db.source()).validate().empty());
  }
}

TEST_CASE_TEMPLATE("what can't be found out until the timeout is in doubt, not failed", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  connection_source const cut(std::make_shared<cut_source>(db, 1'000'000, false));
  if (db.is_mysql()) {  // there is no COMMIT that could be in doubt: what was done is found
    CHECK(migrator(cut, {.timeout = std::chrono::milliseconds(100'000)}).up() == every_up);
    return;
  }
  auto const e = catch_error([&] { migrator(cut, {.timeout = std::chrono::milliseconds(3000)}).up(); });
  CHECK(e.reason == errc::in_doubt);
  CHECK(e.mentions("rowlock migrate status"));
  CHECK(migrator(db.source()).up() == every_up);
}

TEST_CASE_TEMPLATE("a migrator killed at any moment leaves a version whole", DB, ROWLOCK_DATABASES) {
  DB db;
  std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<int> moment{0, 30};
  for (int round = 0; round < 40; ++round) {
    child_process child({ROWLOCK_MIGRATE_HELPER, db.kind(), db.address(), "toggle"});
    REQUIRE(child.read_until("begin"));
    child.read_for(std::chrono::milliseconds(moment(random)));
    child.kill();
    CHECK(child.finish() == 128 + 9);
    migrator m(db.source());
    // Throws if what is there is no version, or if the dead one's lock stays.
    m.up();
    CHECK(m.validate().empty());
  }
}

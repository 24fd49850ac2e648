#include "toy.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::test {
namespace {

static_assert(toy_version == 3);  // as the texts have it

constexpr char const* sqlite_up = R"(ALTER TABLE rowlock_locks ADD COLUMN toy INTEGER;
ALTER TABLE rowlock_tokens ADD COLUMN toy INTEGER;
UPDATE rowlock_meta SET schema_version = 3;
)";
constexpr char const* sqlite_down = R"(UPDATE rowlock_meta SET schema_version = 2;
ALTER TABLE rowlock_locks DROP COLUMN toy;
ALTER TABLE rowlock_tokens DROP COLUMN toy;
)";

constexpr char const* postgresql_up = R"(ALTER TABLE rowlock_locks ADD COLUMN toy bigint;
ALTER TABLE rowlock_tokens ADD COLUMN toy bigint;
UPDATE rowlock_meta SET schema_version = 3;
)";
constexpr char const* postgresql_down = R"(UPDATE rowlock_meta SET schema_version = 2;
ALTER TABLE rowlock_locks DROP COLUMN toy;
ALTER TABLE rowlock_tokens DROP COLUMN toy;
)";

// May be run again: MySQL has no ADD COLUMN IF NOT EXISTS; 1060 is a column that is there already.
constexpr char const* mysql_up = R"(DROP PROCEDURE IF EXISTS rowlock_add_columns;
CREATE PROCEDURE rowlock_add_columns()
BEGIN
  DECLARE CONTINUE HANDLER FOR 1060 BEGIN END;
  ALTER TABLE rowlock_locks ADD COLUMN toy BIGINT;
  ALTER TABLE rowlock_tokens ADD COLUMN toy BIGINT;
END;
CALL rowlock_add_columns();
DROP PROCEDURE rowlock_add_columns;
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 3);
)";
constexpr char const* mysql_down =
    R"(LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_tokens WRITE, rowlock_permits WRITE;
UPDATE rowlock_meta SET schema_version = 2;
ALTER TABLE rowlock_locks DROP COLUMN toy;
ALTER TABLE rowlock_tokens DROP COLUMN toy;
UNLOCK TABLES;
)";

class toy_source final : public backend::source {
 public:
  explicit toy_source(std::shared_ptr<backend::source> inner)
      : inner_(std::move(inner)),
        dialect_(inner_->sql()),
        migrations_(dialect_.migrations.begin(), dialect_.migrations.end()),
        statements_(dialect_.statements.begin(), dialect_.statements.end()) {
    bool const is_mysql = dialect_.name == "mysql";
    bool const is_sqlite = dialect_.name == "sqlite";
    migrations_.push_back({toy_version, "toy",
                           is_mysql    ? mysql_up
                           : is_sqlite ? sqlite_up
                                       : postgresql_up,
                           is_mysql    ? mysql_down
                           : is_sqlite ? sqlite_down
                                       : postgresql_down});
    auto const column = [&](std::string const& table) {
      return is_mysql ? R"(  [3, ")" + table + R"(", "toy", "bigint"],)"
                      : "  (3, '" + table + "', 'toy', '" + (is_sqlite ? "integer" : "bigint") + "'),";
    };
    expect("migrate_columns_expected", columns_, "\n" + column("locks") + "\n" + column("tokens"));
    dialect_.migrations = migrations_;
    dialect_.statements = statements_;
  }
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    return inner_->connect(deadline);
  }
  backend::dialect const& sql() const noexcept override { return dialect_; }
  int best_connections() const noexcept override { return inner_->best_connections(); }
  std::string describe() const override { return inner_->describe(); }
  bool gone(std::string const& identity) const noexcept override { return inner_->gone(identity); }
  void create_if_missing() override { inner_->create_if_missing(); }
  bool is_private() const noexcept override { return inner_->is_private(); }
  bool uses_the_programs() const noexcept override { return inner_->uses_the_programs(); }

 private:
  /// Puts rows before those that the statement has.
  void expect(std::string_view statement, std::string& text, std::string const& rows) {
    for (auto& s : statements_)
      if (s.name == statement) {
        text = s.text;
        auto const values = text.find("(VALUES");
        text.insert(values == text.npos ? text.find("'[") + 2 : values + 7, rows);
        s.text = text;
      }
  }

  std::shared_ptr<backend::source> inner_;
  backend::dialect dialect_;
  std::vector<backend::migration_text> migrations_;
  std::vector<backend::sql_text> statements_;
  std::string columns_;
};

}  // namespace

connection_source with_toy(connection_source const& s) {
  return connection_source(std::make_shared<toy_source>(s.implementation()));
}

}  // namespace rowlock::test

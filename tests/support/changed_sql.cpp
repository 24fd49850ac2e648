#include "support/changed_sql.hpp"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::test {
namespace {

class changed_source final : public backend::source {
 public:
  changed_source(std::shared_ptr<backend::source> inner, std::map<std::string, std::string> changed)
      : inner_(std::move(inner)), changed_(std::move(changed)), dialect_(inner_->sql()) {
    for (auto const& s : dialect_.statements) {
      auto const other = changed_.find(std::string(s.name));
      texts_.push_back(other == changed_.end() ? s : backend::sql_text{s.name, other->second});
    }
    dialect_.statements = texts_;
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
  std::shared_ptr<backend::source> inner_;
  std::map<std::string, std::string> const changed_;
  backend::dialect dialect_;
  std::vector<backend::sql_text> texts_;
};

std::map<std::string, std::string> read_blocks(std::string const& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("can't read the statements in " + path);
  constexpr std::string_view mark = "-- name: ";
  std::map<std::string, std::string> blocks;
  std::string* body = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(mark)) {
      body = &blocks[line.substr(mark.size())];
    } else if (body != nullptr) {
      *body += (body->empty() ? "" : "\n") + line;
    }
  }
  if (blocks.empty()) throw std::runtime_error("there are no statements in " + path);
  return blocks;
}

}  // namespace

std::string sql_of(connection_source const& s, std::string_view statement) {
  for (auto const& each : s.implementation()->sql().statements)
    if (each.name == statement) return std::string(each.text);
  throw std::runtime_error("there is no statement " + std::string(statement));
}

connection_source with_changed_sql(connection_source s, std::map<std::string, std::string> changed) {
  for (auto const& each : changed) (void)sql_of(s, each.first);
  return connection_source(std::make_shared<changed_source>(s.implementation(), std::move(changed)));
}

connection_source as_the_environment_has_it(connection_source s) {
  char const* const path = std::getenv("ROWLOCK_TEST_CHANGED_SQL");
  char const* const dialect = std::getenv("ROWLOCK_TEST_CHANGED_DIALECT");
  if (path == nullptr || dialect == nullptr || s.implementation()->sql().name != dialect) return s;
  return with_changed_sql(std::move(s), read_blocks(path));
}

}  // namespace rowlock::test

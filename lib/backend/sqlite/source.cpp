#include <fmt/format.h>

#include <mutex>
#include <rowlock/error.hpp>
#include <rowlock/sqlite.hpp>

#include "backend/backend.hpp"
#include "backend/sqlite/dialect.hpp"
#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/memory.hpp"
#include "backend/sqlite/open.hpp"
#include "backend/sqlite/process.hpp"
#include "backend/sqlite/session.hpp"

namespace rowlock::backend::sqlite {
namespace {

class file_source final : public source {
 public:
  file_source(std::string const& path, flushing which) : path_(checked_path(path)), flushing_(which) {}

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    close_inherited();
    inside const whole;
    close_replaced();
    auto [native, file] = open_existing(path_);
    return std::make_unique<session>(std::move(native), path_, file, deadline, flushing_);
  }
  dialect const& sql() const noexcept override { return sqlite_dialect(); }
  int best_connections() const noexcept override { return 1; }
  std::string describe() const override { return "sqlite:" + path_; }
  bool gone(std::string const& identity) const noexcept override { return is_gone(identity, path_); }
  void create_if_missing() override { sqlite::create_if_missing(path_); }

 private:
  std::string path_;
  flushing flushing_;
};

class memory_source final : public source {
 public:
  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    return database_.connect(deadline);
  }
  dialect const& sql() const noexcept override { return sqlite_dialect(); }
  int best_connections() const noexcept override { return 1; }
  std::string describe() const override { return "sqlite::memory:"; }
  std::string uri() const { return database_.uri(); }
  bool is_private() const noexcept override { return true; }

 private:
  memory_database database_;
};

std::shared_ptr<source> source_at(std::string const& path, rowlock::sqlite::synchronous durability) {
  if (path == ":memory:") return std::make_shared<memory_source>();
  return std::make_shared<file_source>(
      path, durability == rowlock::sqlite::synchronous::normal ? flushing::lasting : flushing::takes);
}

class function_source final : public source {
 public:
  explicit function_source(std::function<sqlite3*()> open) : open_(std::move(open)) {
    if (!open_) throw error(errc::invalid_argument, "the function that opens SQLite connections is empty");
  }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    close_inherited();
    inside const whole;
    close_replaced();
    auto native = open();
    char const* name = sqlite3_db_filename(native.get(), "main");
    auto const path = checked_path(name == nullptr ? "" : name);
    if (sqlite3_get_autocommit(native.get()) == 0)
      throw error(errc::invalid_argument,
                  "sqlite:" + path + ": the connection that was handed over is inside a transaction");
    auto const file = identify_open(native.get(), path);
    {
      std::lock_guard const guard(mutex_);
      last_path_ = path;
    }
    return std::make_unique<session>(std::move(native), path, file, deadline);
  }
  dialect const& sql() const noexcept override { return sqlite_dialect(); }
  int best_connections() const noexcept override { return 1; }
  std::string describe() const override { return "sqlite, connections opened by the program"; }
  bool gone(std::string const& identity) const noexcept override {
    std::lock_guard const guard(mutex_);
    return !last_path_.empty() && is_gone(identity, last_path_);
  }
  bool uses_the_programs() const noexcept override { return true; }

 private:
  database open() const {
    try {
      if (database db{open_()}) return db;
    } catch (std::exception const& e) {
      throw error(errc::unreachable,
                  fmt::format("the function that opens SQLite connections threw: {}", e.what()));
    } catch (...) {
      throw error(errc::unreachable, "the function that opens SQLite connections threw");
    }
    throw error(errc::unreachable, "the function that opens SQLite connections returned null");
  }

  std::function<sqlite3*()> open_;
  mutable std::mutex mutex_;
  std::string last_path_;
};

}  // namespace
}  // namespace rowlock::backend::sqlite

namespace rowlock::sqlite {

// NOLINTNEXTLINE(performance-unnecessary-value-param): the header promises to take it over
source::source(std::string path, synchronous durability)
    : connection_source(backend::sqlite::source_at(path, durability)) {}

std::string source::memory_uri() const {
  auto const* memory = dynamic_cast<backend::sqlite::memory_source const*>(implementation().get());
  return memory == nullptr ? "" : memory->uri();
}

source::source(std::function<sqlite3*()> open)
    : connection_source(std::make_shared<backend::sqlite::function_source>(std::move(open))) {}

}  // namespace rowlock::sqlite

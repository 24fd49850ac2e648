#pragma once
// A migrated database on each server, and sessions of the client program that people have there: psql,
// mariadb.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/support.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

/// One session of a client program, which is told SQL line by line.
class client {
 public:
  client(std::vector<std::string> const& command, std::string mark_before, std::string mark_after);

  /// What it prints: columns with "|" between, errors with their codes.
  std::string run(std::string const& sql);
  /// In two steps, for what waits: reply() is empty if none came in time.
  void send(std::string const& sql);
  std::optional<std::string> reply(std::chrono::milliseconds patience = 100s);

 private:
  child_process process_;
  std::string mark_before_;
  std::string mark_after_;
  int marks_ = 0;
  std::string so_far_;
};

struct taken {
  std::string term;
  std::int64_t token = 0;
};

/// How long `f` takes.
std::chrono::milliseconds timed(auto&& f) {
  auto const before = boot_clock::now();
  f();
  return std::chrono::duration_cast<std::chrono::milliseconds>(boot_clock::now() - before);
}

/// Whether it waits for no row, which would take a second each time. A busy machine is slow now and then:
/// then it is done again.
bool at_once(auto&& f) {
  for (int tries = 0; tries < 60; ++tries)
    if (timed(f) < std::chrono::milliseconds(900)) return true;
  return false;
}

class place {
 public:
  virtual ~place() = default;

  virtual std::unique_ptr<client> session() const = 0;
  /// Reads an SQL file as people would, from the source tree.
  virtual std::string apply(std::string const& file) const = 0;
  std::unique_ptr<lock_manager> manager() const;
  /// A row of one word, from a session of its own.
  std::string ask(std::string const& sql) const;

  // In a session's own transaction, if it has begun one.
  std::string take_text(std::string const& name, int ttl_ms = 60'000) const {
    return taking("try_acquire", literal(name), ttl_ms);
  }
  virtual std::string call(std::string const& function, std::string const& name,
                           std::string const& term) const = 0;
  static std::optional<taken> taken_in(std::string const& reply);
  std::optional<taken> take(client&, std::string const& name, int ttl_ms = 60'000) const;
  /// "1", "0", or "" for null; or an error's text.
  std::string renew(client& c, std::string const& name, std::string const& term) const;
  std::string release(client& c, std::string const& name, std::string const& term) const;
  std::string require(client& c, std::string const& name, std::string const& term) const;

  // Permits.
  std::string read_text(std::string const& name, int ttl_ms = 60'000) const {
    return taking("try_acquire_shared", literal(name), ttl_ms);
  }
  std::string write_text(std::string const& name, int ttl_ms = 60'000) const {
    return taking("try_acquire_exclusive", literal(name), ttl_ms);
  }
  /// `limit` 0: the one that was set.
  std::string permit_text(std::string const& name, std::int64_t units, std::int64_t limit = 0,
                          int ttl_ms = 60'000) const;
  std::optional<taken> read(client&, std::string const& name, int ttl_ms = 60'000) const;
  std::optional<taken> write(client&, std::string const& name, int ttl_ms = 60'000) const;
  std::optional<taken> permit(client&, std::string const& name, std::int64_t units,
                              std::int64_t limit = 0) const;
  void expire_permits(std::string const& name) const;
  std::int64_t permits_of(std::string const& name) const;

  // Once.
  /// "term|token|0|": it runs here. "||1|result": done. Empty: it runs elsewhere.
  std::string once_text(std::string const& name, int ttl_ms = 60'000) const {
    return taking_once(name, ttl_ms);
  }
  /// The term. Nothing: busy or done.
  std::optional<std::string> once(client&, std::string const& name, int ttl_ms = 60'000) const;
  std::string done_text(std::string const& name, std::string const& term, std::string const& result,
                        std::int64_t keep_ms = 86'400'000) const {
    return recording(name, term, result, keep_ms);
  }

  virtual std::string literal(std::string const&) const = 0;
  /// The database's time and some seconds.
  virtual std::string in_seconds(int) const = 0;
  virtual std::string lost() const = 0;            ///< the code of the error for a lock that is lost
  virtual std::string other_strategy() const = 0;  ///< and of the one for a lock of another strategy
  virtual std::string invalid() const = 0;         ///< and for arguments that make no sense
  virtual std::string stale() const = 0;           ///< the example's
  virtual bool is_mysql() const = 0;
  void expire(std::string const& name) const;

  connection_source const& source() const { return *source_; }
  std::string table(std::string const& what) const;  ///< as clients have to write it

  std::string schema{};
  std::string prefix = "rowlock_";

 protected:
  std::unique_ptr<connection_source> source_;
  void migrate() const;
  virtual std::string taking_once(std::string const& name, int ttl_ms) const = 0;
  virtual std::string recording(std::string const& name, std::string const& term, std::string const& result,
                                std::int64_t keep_ms) const = 0;
  /// `arguments`: those before the ttl.
  virtual std::string taking(std::string const& function, std::string const& arguments, int ttl_ms) const = 0;
};

class postgresql_place : public place {
 public:
  /// `own_schema`: not in the search path, with a prefix.
  explicit postgresql_place(bool own_schema = false);
  ~postgresql_place() override;
  std::unique_ptr<client> session() const override;
  std::string apply(std::string const& file) const override;
  std::string taking(std::string const& function, std::string const& arguments, int ttl_ms) const override;
  std::string taking_once(std::string const& name, int ttl_ms) const override;
  std::string recording(std::string const& name, std::string const& term, std::string const& result,
                        std::int64_t keep_ms) const override;
  std::string call(std::string const& function, std::string const& name,
                   std::string const& term) const override;
  std::string literal(std::string const&) const override;
  std::string in_seconds(int) const override;
  std::string lost() const override { return "RL001"; }
  std::string other_strategy() const override { return "RL002"; }
  std::string invalid() const override { return "22023"; }
  std::string stale() const override { return "RL003"; }
  bool is_mysql() const override { return false; }
  std::vector<std::string> command() const;

 private:
  std::string name_ = unique_identifier();
};

class mysql_like_place : public place {
 public:
  ~mysql_like_place() override;
  std::unique_ptr<client> session() const override;
  std::string apply(std::string const& file) const override;
  std::string taking(std::string const& function, std::string const& arguments, int ttl_ms) const override;
  std::string taking_once(std::string const& name, int ttl_ms) const override;
  std::string recording(std::string const& name, std::string const& term, std::string const& result,
                        std::int64_t keep_ms) const override;
  std::string call(std::string const& function, std::string const& name,
                   std::string const& term) const override;
  std::string literal(std::string const&) const override;
  std::string in_seconds(int) const override;
  std::string lost() const override { return "ERROR 30001 (45000)"; }
  std::string other_strategy() const override { return "ERROR 30003 (45000)"; }
  std::string invalid() const override { return "ERROR 30002 (45000)"; }
  std::string stale() const override { return "ERROR 30005 (45000)"; }
  bool is_mysql() const override { return true; }

 protected:
  mysql_like_place(std::string const& server, bool own_schema);

 private:
  std::vector<std::string> command() const;
  std::string server_;
  std::string name_ = unique_identifier();
};

class mariadb_place : public mysql_like_place {
 public:
  explicit mariadb_place(bool own_schema = false) : mysql_like_place(mariadb_url(), own_schema) {}
};

class mysql_place : public mysql_like_place {
 public:
  explicit mysql_place(bool own_schema = false) : mysql_like_place(mysql_url(), own_schema) {}
};

}  // namespace rowlock::test

TYPE_TO_STRING_AS("postgresql", rowlock::test::postgresql_place);
TYPE_TO_STRING_AS("mariadb", rowlock::test::mariadb_place);
TYPE_TO_STRING_AS("mysql", rowlock::test::mysql_place);

#define FUNCTIONS_CASE(text)                                                       \
  TEST_CASE_TEMPLATE("functions: " text, Place, ::rowlock::test::postgresql_place, \
                     ::rowlock::test::mariadb_place, ::rowlock::test::mysql_place)
#define MYSQL_FUNCTIONS_CASE(text) \
  TEST_CASE_TEMPLATE("functions: " text, Place, ::rowlock::test::mariadb_place, ::rowlock::test::mysql_place)

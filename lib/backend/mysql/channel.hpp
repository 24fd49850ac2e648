#pragma once
// A session's driver: MySQL Connector/C++ (connector.hpp), or the C client library below SOCI's sessions.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/reply_size.hpp"

namespace rowlock::backend::mysql {

/// An error of the server or the client library.
class refusal : public std::runtime_error {
 public:
  refusal(int number, std::string state, std::string const& message)
      : std::runtime_error(message), native_(number), sqlstate_(std::move(state)) {}
  int native() const noexcept { return native_; }  ///< 0: a misuse of the driver
  std::string const& sqlstate() const noexcept { return sqlstate_; }
  /// Of a text of several statements: how many were done before.
  std::size_t done_before() const noexcept { return done_before_; }
  refusal& after(std::size_t done) noexcept {
    done_before_ = done;
    return *this;
  }

 private:
  int native_;
  std::string sqlstate_;
  std::size_t done_before_ = 0;
};

/// A reply that no server sends. @return an error that ends the session
inline refusal malformed(std::string const& message) { return {2027, "HY000", message}; }

/// For result::number: a reply's insert id.
inline std::optional<std::int64_t> told_number(unsigned long long insert_id) noexcept {
  if (insert_id == 0 || insert_id > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return static_cast<std::int64_t>(insert_id);
}

/// Precondition: it is destroyed before its channel.
class prepared_statement {
 public:
  virtual ~prepared_statement() = default;
  /// `order`: which value each ? stands for. The values must live until run() returns, and are bound for that
  /// run alone. @throws refusal
  virtual void bind(std::span<std::size_t const> order, std::span<value const>) = 0;
  virtual result run() = 0;  ///< @throws refusal
};

/// Each call reads its replies to the end, unless it throws.
class channel {
 public:
  /// Ends the connection.
  virtual ~channel() = default;
  /// Every thread must call this first.
  virtual void enter_thread() = 0;
  virtual bool is_mariadb() = 0;                                                    ///< @throws refusal
  virtual bool ping() = 0;                                                          ///< @throws refusal
  virtual std::unique_ptr<prepared_statement> prepare(std::string const& sql) = 0;  ///< @throws refusal
  /// One statement that can't be prepared. @throws refusal
  virtual result run(std::string const& sql) = 0;
  /// One statement or several, until one fails. @return each one's result @throws refusal of that one
  virtual std::vector<result> run_all(std::string const& sql) = 0;
};

/// The program's own connection. It stays the program's.
class borrowed_channel {
 public:
  virtual ~borrowed_channel() = default;
  /// Whether a statement now is part of a transaction that stays open. @throws refusal
  virtual bool in_transaction() = 0;
  virtual bool is_mariadb() = 0;  ///< @throws refusal
  /// One statement, as text. @throws refusal
  virtual result run(std::string const& sql) = 0;
};

}  // namespace rowlock::backend::mysql

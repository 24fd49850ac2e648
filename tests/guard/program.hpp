#pragma once
// A program of the users': a connection of its own, by each driver, and what it does on it.

#include <memory>
#include <optional>
#include <rowlock/transaction.hpp>
#include <stdexcept>
#include <string>

namespace rowlock::test {

/// What the program's own statement was refused with.
class refused_statement : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class program {
 public:
  virtual ~program() = default;
  virtual void run(std::string const& sql) = 0;                          ///< one statement
  virtual std::optional<std::string> value(std::string const& sql) = 0;  ///< of the first row, as text
  /// The view of what is open on the connection.
  virtual std::shared_ptr<basic_transaction> view(lock_manager&, transaction_options = {}) = 0;
  virtual void commit() = 0;  ///< execute_commit()
  virtual void* native() = 0;
};

enum class driver { libpq, connector, sqlite3, soci };

std::unique_ptr<program> connect_by(driver, std::string const& url);

}  // namespace rowlock::test

#pragma once
// One migrator's way to the database: a connection that is made again when it is lost, and transactions that
// are tried again while others are in the way.

#include <functional>
#include <initializer_list>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/migrator.hpp>
#include <string>
#include <string_view>

#include "backend/backend.hpp"

namespace rowlock::migrate {

/// A decision not to do what was asked (locks are held, tables differ): ends the transaction and is not tried
/// again, whatever its errc is.
class refusal : public error {
 public:
  using error::error;
};

class session {
 public:
  /// `make`: create the database first where the engine can. Throws error(errc::invalid_argument) for bad
  /// table names.
  session(backend::source&, migrator_options const&, bool make = false);
  ~session();
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  backend::dialect const& dialect() const noexcept { return source_.sql(); }
  backend::table_names const& tables() const noexcept { return tables_; }
  std::string const& named_schema() const noexcept { return options_.schema; }  ///< for messages

  backend::result run(std::string_view statement, std::initializer_list<backend::value> parameters = {});
  void script(std::string_view sql);
  void tell(std::string_view message) const;

  /// Keeps all other migrators of these tables out until the transaction ends, or the session where DDL
  /// commits. Throws errc::row_locked, which read() and write() try again, while one is at work.
  void enter();

  /// Runs `body` in one read-only transaction.
  void read(std::function<void()> const& body);

  /// Runs `body` in one transaction, alone among the migrators of these tables. Tried again from the start,
  /// until the options' timeout, while others are in the way or the connection breaks; so body looks first at
  /// what is there. It is told whether the try before was lost at its COMMIT, so that what it did may be
  /// there.
  void write(std::function<void(bool after_doubt)> const& body);

 private:
  enum class mode { reading, writing };
  enum class progress { begin, body, commit };

  void attempt(mode, std::function<void(bool)> const& body, bool after_doubt, progress& at);
  void transaction(mode, std::function<void(bool)> const& body);
  void connect();
  void rollback() noexcept;
  boot_time_point reply_deadline() const;
  bool worth_another_try(error const&, mode) const;
  void wait_before_try(int attempt, error const&);
  [[noreturn]] void give_up(error const&, progress);
  std::string in_the_way();

  backend::source& source_;
  migrator_options const& options_;
  backend::table_names tables_;
  backend::statement_book statements_;
  boot_time_point deadline_;
  bool make_;
  bool connected_before_ = false;
  bool waiting_told_ = false;
  std::unique_ptr<backend::connection> connection_;
};

}  // namespace rowlock::migrate

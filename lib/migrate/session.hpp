#pragma once
// A migrator's session. It reconnects after a loss, and repeats transactions while other sessions are in the
// way.

#include <functional>
#include <initializer_list>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/migrator.hpp>
#include <string>
#include <string_view>

#include "backend/backend.hpp"

namespace rowlock::migrate {

/// A decision against the request (locks are held, tables differ). It ends the transaction and is not
/// repeated.
class refusal : public error {
 public:
  using error::error;
};

class session {
 public:
  /// `make`: create the database first, where the engine can. @throws error(errc::invalid_argument) for bad
  /// table names
  session(backend::source&, migrator_options const&, bool make = false);
  ~session();
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  backend::dialect const& dialect() const noexcept { return source_.sql(); }
  backend::table_names const& tables() const noexcept { return tables_; }
  std::string const& named_schema() const noexcept { return options_.schema; }

  backend::result run(std::string_view statement, std::initializer_list<backend::value> parameters = {});
  void script(std::string_view sql);
  void report(std::string_view message) const;

  /// Keeps other migrators of these tables out until the transaction ends (where DDL commits: the session).
  /// @throws error(errc::row_locked) while another one works; read() and write() then try again
  void enter();

  void read(std::function<void()> const& body);

  /// Runs `body` in one transaction, alone among the migrators of these tables. Repeats it, until the
  /// options' timeout, while other sessions are in the way or the connection breaks. So `body` first reads
  /// the present state. `after_doubt`: the previous COMMIT's reply was lost, so it can be applied.
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

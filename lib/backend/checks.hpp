#pragma once
// The interface between the doctor's checks and a database. The checks of one database are in its folder,
// checks.cpp. They know no driver.

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/findings.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// Values by lower-case name, from a statement of two columns.
class ROWLOCK_EXPORT settings {
 public:
  settings() = default;
  explicit settings(result const&);

  bool has(std::string const& name) const { return values_.contains(name); }
  /// Empty if there is no such setting.
  std::string const& operator[](std::string const& name) const;
  /// The first that exists: servers have renamed some.
  std::string const& any(std::initializer_list<char const*> names) const;
  /// ON, 1, YES, true, or any other text that does not say the opposite.
  bool on(std::string const& name) const;
  std::int64_t number(std::string const& name) const;  ///< 0 if it is not a number

 private:
  std::map<std::string, std::string> values_;
};

struct opinion {
  verdict result = verdict::ok;
  std::string why;
  std::string remedy{};
};

/// The examination of one database. An exception from a member becomes the check's result.
class ROWLOCK_EXPORT examiner {
 public:
  virtual ~examiner();
  examiner(examiner const&) = delete;
  examiner& operator=(examiner const&) = delete;

  virtual connection& session() = 0;
  /// A second session. The caller keeps it.
  virtual std::unique_ptr<connection> another() = 0;
  virtual result ask_on(connection&, std::string_view statement, std::vector<value> const& parameters) = 0;
  result ask(connection& c, std::string_view statement, std::vector<value> const& parameters = {}) {
    return ask_on(c, statement, parameters);
  }
  result ask(std::string_view statement, std::vector<value> const& parameters = {}) {
    return ask_on(session(), statement, parameters);
  }
  /// doctor_session, doctor_settings or doctor_status, asked once.
  virtual settings const& known(std::string const& statement) = 0;
  /// doctor_tables of one table, such as "locks". Empty if the server reports nothing about it.
  virtual std::optional<row> table(std::string const& what) = 0;
  /// Whether the database says that the table is missing. False if this role may not look.
  virtual bool is_missing(std::string const& what) = 0;
  /// Empty if the options name none, and none was found.
  virtual std::string schema_of_tables() const = 0;
  /// A sentence for each object of another role with a name of rowlock's. `unreadable`: only objects that
  /// must not even be read.
  virtual std::vector<std::string> strangers(std::string const& schema, bool unreadable) = 0;
  /// The error's message without the database's address, which the first finding has.
  virtual std::string words(error const&) const = 0;

  virtual doctor_options const& options() const noexcept = 0;
  virtual statement_book const& statements() const noexcept = 0;
  boot_time_point deadline() const { return boot_clock::now() + options().reply_timeout; }

 protected:
  examiner() = default;
};

/// A check. It returns nothing if it does not apply. Null: the common check in lib/diagnose.
struct named_check {
  char const* name = "";
  std::optional<opinion> (*look)(examiner&) = nullptr;
};

/// Whether the connection is encrypted. `protocol` is empty if not. `remedy`: how to encrypt it.
ROWLOCK_EXPORT opinion tls(session_facts const&, std::string const& protocol, std::string const& remedy);

/// Tries an UPDATE that matches no row. @return an error if the database takes no writes, else nothing, also
/// after another problem
ROWLOCK_EXPORT std::optional<opinion> refused_writes(examiner&);

/// The `names` that are on: "statement_timeout = 5000, lock_timeout = 1".
ROWLOCK_EXPORT std::string list_on(settings const&, std::initializer_list<char const*> names);

}  // namespace rowlock::backend

#pragma once
// What the checks of a database have in common: a session, what it was asked, and what becomes of a check
// that fails.

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
#include "sessions/database.hpp"

namespace rowlock::diagnose {

/// Values by name, as a statement of two columns gave them. Names in lower case.
class settings {
 public:
  settings() = default;
  explicit settings(backend::result const&);

  bool has(std::string const& name) const { return values_.contains(name); }
  /// Empty if there is no such setting.
  std::string const& operator[](std::string const& name) const;
  /// The first of them that there is: servers have renamed some.
  std::string const& any(std::initializer_list<char const*> names) const;
  /// ON, 1, YES, true; or anything else that is not the opposite.
  bool on(std::string const& name) const;
  std::int64_t number(std::string const& name) const;  ///< 0 if it is none

 private:
  std::map<std::string, std::string> values_;
};

/// What a check came to.
struct opinion {
  verdict result = verdict::ok;
  std::string why;
  std::string remedy{};
};

class examination {
 public:
  examination(std::shared_ptr<backend::source>, doctor_options const&);

  std::vector<finding> run();

  // For the checks. What these throw is what becomes of the check.
  backend::connection& session();
  /// One more, for as long as the caller keeps it.
  std::unique_ptr<backend::connection> another() { return source_->connect(deadline()); }
  backend::result ask(backend::connection&, std::string_view statement,
                      std::vector<backend::value> const& parameters = {});
  backend::result ask(std::string_view statement, std::vector<backend::value> const& parameters = {}) {
    return ask(session(), statement, parameters);
  }
  /// doctor_session, doctor_settings or doctor_status: asked once.
  settings const& known(std::string const& statement);
  /// doctor_tables of one table, `what` being "locks" or "tokens". Nothing if the server tells nothing of it.
  std::optional<backend::row> table(std::string const& what);
  /// Whether the database says that there is no such table. Who may not look at it is told nothing.
  bool is_missing(std::string const& what);
  /// Empty if the options name none, and none was found.
  std::string schema_of_tables() const { return database_.tables().schema; }
  /// What bears the name of one of rowlock's tables or functions and is somebody else's: a sentence each.
  /// `unreadable`: only what must not even be read.
  std::vector<std::string> strangers(std::string const& schema, bool unreadable = false);
  /// The schema version that this program would make.
  int latest_version() const noexcept { return source_->sql().migrations.back().version; }
  /// @throws error as managers do when the tables are not there, or not of the right version
  int check_schema() { return database_.check_schema(session(), deadline()); }

  doctor_options const& options() const noexcept { return options_; }
  backend::statement_book const& statements() const noexcept { return database_.statements(); }
  /// What an error says, without which database it was: that stands in the first finding.
  std::string words(error const&) const;
  boot_time_point deadline() const { return boot_clock::now() + options_.reply_timeout; }

 private:
  using check = std::optional<opinion> (*)(examination&);
  struct named_check {
    char const* name;
    check look;
  };
  std::vector<named_check> checks() const;
  std::optional<opinion> look(named_check const&);
  /// What keeps all others from being made: they would read it.
  std::optional<opinion> not_tables();
  /// Of a check that could not be made.
  opinion undecided(error const&) const;

  std::shared_ptr<backend::source> source_;
  doctor_options const& options_;
  sessions::database database_;
  std::unique_ptr<backend::connection> session_;
  std::optional<error> lost_;  ///< why there is no session any more
  std::map<std::string, settings> known_;
};

}  // namespace rowlock::diagnose

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

#include "backend/checks.hpp"
#include "sessions/database.hpp"

namespace rowlock::diagnose {

using backend::opinion;

/// What all checks ask, and what the common ones do beside.
class examination final : public backend::examiner {
 public:
  examination(std::shared_ptr<backend::source>, doctor_options const&);

  std::vector<finding> run();

  backend::connection& session() override;
  std::unique_ptr<backend::connection> another() override { return source_->connect(deadline()); }
  backend::result ask_on(backend::connection&, std::string_view statement,
                         std::vector<backend::value> const& parameters) override;
  backend::settings const& known(std::string const& statement) override;
  std::optional<backend::row> table(std::string const& what) override;
  bool is_missing(std::string const& what) override;
  std::string schema_of_tables() const override { return database_.tables().schema; }
  std::vector<std::string> strangers(std::string const& schema, bool unreadable) override;
  std::string words(error const&) const override;
  doctor_options const& options() const noexcept override { return options_; }
  backend::statement_book const& statements() const noexcept override { return database_.statements(); }

  /// The schema version that this program would make.
  int latest_version() const noexcept { return source_->sql().migrations.back().version; }
  /// Whether another role has put anything beside the tables that writing to them might run. @throws error
  bool has_strangers();
  /// What migrator::validate() says. @throws error
  std::vector<std::string> validate();
  /// @throws error as managers do when the tables are not there, or not of the right version
  int check_schema() { return database_.check_schema(session(), deadline()); }

 private:
  std::optional<opinion> look(backend::named_check const&);
  /// Where the tables are, if the options do not say.
  std::string schema_found();
  /// A reason not to make any of the other checks: they would read what is no table of ours.
  std::optional<opinion> not_tables();
  /// Of a check that could not be made.
  opinion undecided(error const&) const;

  std::shared_ptr<backend::source> source_;
  doctor_options const& options_;
  sessions::database database_;
  std::unique_ptr<backend::connection> session_;
  std::optional<error> lost_;  ///< why there is no session any more
  std::map<std::string, backend::settings> known_;
};

}  // namespace rowlock::diagnose

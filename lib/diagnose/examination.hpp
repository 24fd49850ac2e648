#pragma once
// The common part of a database's checks: session, cached answers, results of failed checks.

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

class examination final : public backend::examiner {
 public:
  examination(std::shared_ptr<backend::source>, doctor_options const&);

  std::vector<finding> run();
  /// Empty where the database has no check of snapshots.
  std::optional<old_snapshot> oldest_snapshot();

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

  int latest_version() const noexcept { return source_->sql().migrations.back().version; }
  /// Whether another role has added an object that a write to the tables might run. @throws error
  bool has_strangers();
  /// As migrator::validate(). @throws error
  std::vector<std::string> validate();
  /// @throws error as managers do if the tables are missing or have a wrong version
  int check_schema() { return database_.check_schema(session(), deadline()); }

 private:
  std::optional<opinion> look(backend::named_check const&);
  /// The tables' schema, also if the options name none.
  std::string schema_found();
  /// A reason to skip all other checks: they would read a foreign object.
  std::optional<opinion> not_tables();
  /// The result of a check that could not be made.
  opinion undecided(error const&) const;

  std::shared_ptr<backend::source> source_;
  doctor_options const& options_;
  sessions::database database_;
  std::unique_ptr<backend::connection> session_;
  std::optional<error> lost_;  ///< the error of the failed connect
  std::map<std::string, backend::settings> known_;
};

}  // namespace rowlock::diagnose

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rowlock::tool {

/// Which database, and which tables in it: what all commands have in common.
struct database {
  std::string url;             ///< with the password file in it, if one was named
  std::string url_as_given{};  ///< of --db
  std::string password_file{};
  std::string table_prefix = "rowlock_";
  std::string schema;
  enum class origin { command_line, environment, nowhere } from = origin::nowhere;
  /// The file in the user's state directory, made when it is first needed: "local", or nothing was said.
  bool standard = false;
  bool is_standard() const noexcept { return standard; }
  /// No server: a file of this machine's.
  bool is_file() const;
  /// What has to be added to a rowlock command for the same database and tables: "", or " --db ... --schema
  /// ...".
  std::string options() const;
};

/// `url`: of --db, if it was given; else ROWLOCK_DB, else the standard file.
/// @throws failure(exit_usage) if one of them is empty: a variable that was not set must not become a lock
/// that nobody else sees; if a URL on the command line has a password in it: others can read it there (ps);
/// or if there is a password file and the database is not MySQL's or MariaDB's
database choose_database(std::optional<std::string> url, std::string password_file, std::string table_prefix,
                         std::string schema);

/// If no database was named: the file that is used then. Empty if one was named.
std::string unnamed_file(database const&);

/// If no database was named: a message that says on which host and in which file the lock holds. Empty if one
/// was named.
std::string where_it_holds(database const&, std::string_view name);

/// Whether a URL, or a libpq keyword string, has a password in it.
bool has_password(std::string const& url);

/// Whether a URL can name a file with the password.
bool takes_password_file(std::string const& url);

/// While it lives, what is made is for its owner alone, if this is the standard file. A file that the user
/// has named gets the mode that the umask leaves, as with any program's: others may be meant to share it.
class private_if_standard {
 public:
  explicit private_if_standard(database const&) noexcept;
  ~private_if_standard();
  private_if_standard(private_if_standard const&) = delete;
  private_if_standard& operator=(private_if_standard const&) = delete;

 private:
  std::optional<unsigned> before_;
};

/// Makes the standard file's folder, for its owner only, if this is the standard file. @throws
/// failure(exit_setup)
void make_folder(database const&);

/// Runs `use`. If that fails because the standard file or its tables are missing, makes them, and runs it
/// again; any other database only `rowlock migrate up` makes.
template <class Use>
void with_standard_file(database const&, Use use);

/// Makes the standard file and its tables; any number of processes may do so at once.
void make_standard_file(database const&);

}  // namespace rowlock::tool

#include <rowlock/error.hpp>

template <class Use>
void rowlock::tool::with_standard_file(database const& db, Use use) {
  try {
    return use();
  } catch (error const& e) {
    // Old: another process is just making it, or an older rowlock did.
    bool const mendable = e.reason() == errc::schema_missing || e.reason() == errc::schema_old;
    if (!db.is_standard() || !mendable) throw;
  }
  make_standard_file(db);
  use();
}

#include "database.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <rowlock/rowlock.hpp>

#include "exit_status.hpp"
#include "password_file.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

constexpr std::string_view local_scheme = "sqlite:";  // of the file in the user's state directory

std::string environment(char const* name) {
  char const* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path home() {
  if (std::filesystem::path set = environment("HOME"); !set.empty()) {
    if (set.is_absolute()) return set;
    throw failure(
        exit_usage,
        fmt::format("HOME is '{}', and no absolute path: in each folder it would be another file, "
                    "whose locks exclude no process elsewhere. Set it right, or give a database with "
                    "--db URL",
                    printable(set.string())));
  }
  if (passwd const* user = ::getpwuid(::getuid()); user != nullptr && user->pw_dir != nullptr)
    return user->pw_dir;
  throw failure(exit_usage,
                "HOME is not set, so there is no place for a database of your own: give one with --db URL");
}

/// As the XDG Base Directory Specification has it: a relative XDG_STATE_HOME does not count.
std::filesystem::path standard_file() {
  std::filesystem::path const set = environment("XDG_STATE_HOME");
  auto const state = set.is_absolute() ? set : home() / ".local" / "state";
  return state / "rowlock" / "locks.db";
}

/// Nothing of what no back end understands: connecting says so.
std::optional<url_info> described(std::string const& url) try {
  return describe_url(url);
} catch (error const&) {
  return std::nullopt;
}

/// As a value in a URL's query.
std::string percent_encoded(std::string_view text) {
  std::string out;
  for (char const c : text) {
    bool const plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::strchr("/._-~", c) != nullptr;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string with_password_file(std::string url, std::string const& file) {
  if (file.empty()) return url;
  if (auto const known = described(url); !known || !known->takes_password_file)
    throw failure(
        exit_usage,
        "--password-file is for databases of MySQL and MariaDB (mysql://...); PostgreSQL has ~/.pgpass and "
        "PGPASSFILE");
  return fmt::format("{}{}password-file={}", url, url.find('?') == url.npos ? "?" : "&",
                     percent_encoded(readable_again(file)));
}

void refuse_empty(std::string_view url, char const* where) {
  if (url.empty())
    throw failure(exit_usage,
                  fmt::format("{} is empty, and names no database: a variable that was not set? Name "
                              "one, or say local for a file of your own on this host",
                              where));
}

void make_private_folders(std::filesystem::path const& folder) {
  if (folder.empty() || std::filesystem::exists(folder)) return;
  make_private_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw failure(exit_setup, fmt::format("cannot make the folder {}: {}. Give a database with --db URL.",
                                          folder.string(), std::strerror(errno)));
}

}  // namespace

bool has_password(std::string const& url) {
  auto const known = described(url);
  return known && known->has_password;
}

bool takes_password_file(std::string const& url) {
  auto const known = described(url);
  return known && known->takes_password_file;
}

std::string database::options() const {
  std::string out;
  if (from == origin::command_line) out += " --db " + shell_word(url_as_given);
  if (!password_file.empty()) out += " --password-file " + shell_word(password_file);
  if (table_prefix != database{}.table_prefix) out += " --table-prefix " + shell_word(table_prefix);
  if (!schema.empty()) out += " --schema " + shell_word(schema);
  return out;
}

bool database::is_file() const {
  auto const known = described(url);
  return known && known->is_file;
}

std::string unnamed_file(database const& db) {
  return db.from == database::origin::nowhere ? db.url.substr(local_scheme.size()) : std::string();
}

std::string where_it_holds(database const& db, std::string_view name) {
  auto const file = unnamed_file(db);
  if (file.empty()) return {};
  return fmt::format(
      "no database is named, so '{}' is locked on this host only, in {}. To lock it on all hosts: --db "
      "postgresql://HOST/DB, or ROWLOCK_DB; if you mean this host: --db local",
      name, file);
}

database choose_database(std::optional<std::string> url, std::string password_file, std::string table_prefix,
                         std::string schema) {
  database db;
  db.table_prefix = std::move(table_prefix);
  db.schema = std::move(schema);
  if (url) {
    refuse_empty(*url, "--db");
    if (auto const known = described(*url); known && known->has_password)
      throw failure(
          exit_usage,
          fmt::format(
              "--db has a password in it, which everybody on this machine could read (ps). Leave it out and "
              "use {}, or put the URL into ROWLOCK_DB.",
              known->passwords));
    db.from = database::origin::command_line;
    db.url = *std::move(url);
    db.url_as_given = db.url;
  } else if (char const* set = std::getenv("ROWLOCK_DB"); set != nullptr) {
    refuse_empty(set, "ROWLOCK_DB");
    db.from = database::origin::environment;
    db.url = set;
  }
  db.standard = db.from == database::origin::nowhere || db.url == "local";
  if (db.standard) db.url = std::string(local_scheme) + standard_file().string();
  if (db.url == "sqlite::memory:")
    throw failure(exit_usage,
                  "sqlite::memory: is for tests within one program: it would be gone with this command. Name "
                  "a file: sqlite:PATH");
  db.url = with_password_file(std::move(db.url), password_file);
  db.password_file = std::move(password_file);
  return db;
}

void make_folder(database const& db) {
  if (db.is_standard())
    make_private_folders(std::filesystem::path(db.url.substr(local_scheme.size())).parent_path());
}

private_if_standard::private_if_standard(database const& db) noexcept {
  if (db.is_standard()) before_ = ::umask(077);
}

private_if_standard::~private_if_standard() {
  if (before_) ::umask(*before_);
}

void make_standard_file(database const& db) {
  make_folder(db);
  private_if_standard const mode(db);
  migrator_options options;
  options.table_prefix = db.table_prefix;
  options.schema = db.schema;
  migrator(source_from_url(db.url), options).up();
}

}  // namespace rowlock::tool

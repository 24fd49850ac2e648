// The files that have cron or systemd run the reaper, in the environment that those give a program.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/place.hpp"
#include "support/source_path.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

std::string read_source(std::string const& path) {
  auto const text = read_file(source_path(path));
  REQUIRE_FALSE(text.empty());
  return text;
}

/// The first group of what matches.
std::string part(std::string const& text, std::string const& pattern) {
  std::smatch found;
  REQUIRE_MESSAGE(std::regex_search(text, found, std::regex(pattern)), pattern);
  return found.str(1);
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE_MESSAGE(at != text.npos, from);
  return text.replace(at, from.size(), to);
}

/// schema/DIALECT-grants.sql, its roles named locking_SUFFIX and reaping_SUFFIX: cases run side by side.
std::string grants_of(std::string const& dialect, std::string const& suffix) {
  auto const sql =
      std::regex_replace(read_source("schema/" + dialect + "-grants.sql"), std::regex("--[^\n]*"), "");
  return std::regex_replace(sql, std::regex("rowlock_(locking|reaping)"), "$1_" + suffix);
}

/// A database in which the login reaper_SUFFIX, password "secret", has the documented rights.
template <class Place>
class scheduled;

template <>
class scheduled<on_sqlite> : public on_sqlite {
 public:
  std::string scheme() const { return "sqlite"; }
  /// The URL in place of the documented one, where the password is in a file or in the environment.
  std::string reaper_url() const { return url(); }
  void refuse_reaper() const { sql("ALTER TABLE rowlock_meta RENAME TO elsewhere"); }
  static constexpr int refused = 78;
};

template <>
class scheduled<on_postgresql> : public on_postgresql {
 public:
  scheduled() {
    sql(fmt::format(
        "{0} CREATE ROLE reaper_{1} LOGIN PASSWORD 'secret'; GRANT reaping_{1} TO reaper_{1}; GRANT USAGE "
        "ON SCHEMA {1} TO reaper_{1}; ALTER ROLE reaper_{1} SET search_path = {1}",
        grants_of("postgresql", suffix()), suffix()));
  }
  ~scheduled() override {
    sql(fmt::format(
        "DROP OWNED BY locking_{0}, reaping_{0}, reaper_{0}; DROP ROLE locking_{0}, reaping_{0}, reaper_{0}",
        suffix()));
  }
  std::string scheme() const { return "postgresql"; }
  std::string reaper_url() const {
    auto const of = [&](std::string const& keyword) { return part(url(), keyword + "=(\\S+)"); };
    return fmt::format("postgresql://reaper_{}@{}:{}/{}", suffix(), of("host"), of("port"), of("dbname"));
  }
  void refuse_reaper() const { sql("REVOKE SELECT ON rowlock_meta FROM reaping_" + suffix()); }
  static constexpr int refused = 77;

 private:
  std::string suffix() const { return options().at(1); }
};

template <class Place>
class scheduled_on_mysql_like : public Place {
 public:
  scheduled_on_mysql_like() {
    // The one word that the two do not share.
    auto const* to = std::is_same_v<Place, on_mysql> ? "TO" : "FOR";
    this->sql(fmt::format(
        "{0} CREATE USER reaper_{1}@'%' IDENTIFIED BY 'secret'; GRANT reaping_{1} TO reaper_{1}@'%'; "
        "SET DEFAULT ROLE reaping_{1} {2} reaper_{1}@'%'",
        grants_of("mysql", suffix_), suffix_, to));
  }
  ~scheduled_on_mysql_like() override {
    this->sql(fmt::format("DROP USER reaper_{0}; DROP ROLE locking_{0}, reaping_{0}", suffix_));
  }
  std::string scheme() const { return "mysql"; }
  std::string reaper_url() const {
    return std::regex_replace(this->url(), std::regex("//[^@]*@"), "//reaper_" + suffix_ + "@");
  }
  void refuse_reaper() const { this->sql("REVOKE SELECT ON rowlock_meta FROM reaping_" + suffix_); }
  static constexpr int refused = 77;

 private:
  std::string suffix_ = unique_identifier();
};

template <>
class scheduled<on_mariadb> : public scheduled_on_mysql_like<on_mariadb> {};
template <>
class scheduled<on_mysql> : public scheduled_on_mysql_like<on_mysql> {};

/// A folder with the program in it, by its usual name.
class installed {
 public:
  installed() { std::filesystem::create_symlink(rowlock_program, folder_.file("rowlock")); }
  std::string folder() const { return folder_.path().string(); }
  /// A file that only its owner may read. @return its path
  std::string secret(std::string const& name, std::string const& content) const {
    std::ofstream(folder_.file(name)) << content << '\n';
    ::chmod(folder_.file(name).c_str(), 0600);
    return folder_.file(name);
  }

 private:
  scratch_folder folder_;
};

template <class Place>
void check_reaped(Place const& p, finished const& r) {
  CHECK(r.status == 0);
  CHECK(r.out.empty());
  CHECK(r.err.empty());
  CHECK(json::parse(p.rowlock({"list", "--reaper", "--json"}).out)["report"]["deleted"]["lease"] == 3);
}

}  // namespace

CLI_CASE("schedule: the line in tools/cron, run as cron does, under the documented role") {
  scheduled<Place> const p;
  installed const there;
  leave_idle(p, 3);
  // The file as it is, but for which database is commented out, and where that, the password and the program
  // are.
  auto text = read_source("tools/cron/rowlock-reap");
  if (p.scheme() != "postgresql") {
    text = replaced(text, "\nROWLOCK_DB=", "\n#ROWLOCK_DB=");
    text = replaced(text, "\nPGPASSFILE=", "\n#PGPASSFILE=");
    text = replaced(text, "\n#ROWLOCK_DB=" + p.scheme() + ":", "\nROWLOCK_DB=" + p.scheme() + ":");
  }
  auto const documented = part(text, "\nROWLOCK_DB=([^?\n]*)");
  CHECK(documented == (p.scheme() == "sqlite" ? "sqlite:/var/lib/app/locks.db"
                                              : p.scheme() + "://reaper@db.example.org/app"));
  text = replaced(text, "\nROWLOCK_DB=" + documented, "\nROWLOCK_DB=" + p.reaper_url());
  text = replaced(text, "/etc/rowlock/pgpass", there.secret("pgpass", "*:*:*:*:secret"));
  text = replaced(text, "/etc/rowlock/password", there.secret("password", "secret"));
  text = replaced(text, "PATH=/usr/local/bin:", "PATH=" + there.folder() + ":");
  words command{"env", "-i"};
  std::string line;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    std::smatch found;
    if (std::regex_match(line, found, std::regex("([A-Z_]+)=(.*)")))
      command.push_back(line);
    else if (std::regex_match(line, found, std::regex("[0-9]+ [0-9]+ \\* \\* \\*\\s+rowlock\\s+(.*)")))
      command.insert(command.end(), {"/bin/sh", "-c", found.str(1)});
    else
      CHECK(line.rfind('#', 0) == 0);
  }
  REQUIRE(command.size() == (p.scheme() == "postgresql" ? 8 : 7));
  check_reaped(p, run(command));
  p.refuse_reaper();
  auto const refused = run(command);
  CHECK(refused.status == p.refused);  // and cron has something to send
  CHECK_FALSE(refused.err.empty());
}

SERVER_CASE(
    "schedule: ExecStart of tools/systemd, in the environment of its file, under the documented role") {
  scheduled<Place> const p;
  installed const there;
  leave_idle(p, 3);
  auto const unit = read_source("tools/systemd/rowlock-reap.service");
  auto const url = p.scheme() + "://reaper@db.example.org/app";
  auto const variable = part(unit, "\n#   ROWLOCK_DB=" + url + "\n#   ([A-Z_]+)=\\.\\.\\.\n");
  CHECK(unit.find("\nEnvironmentFile=/etc/rowlock/reap.env\n") != std::string::npos);
  words command{"env", "-i", "ROWLOCK_DB=" + p.reaper_url(), variable + "=secret"};
  std::istringstream rest(there.folder() + "/" + part(unit, "\nExecStart=(rowlock [^\n]*)\n"));
  for (std::string word; rest >> word;) command.push_back(word);
  check_reaped(p, run(command));
}

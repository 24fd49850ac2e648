#pragma once

#include <filesystem>
#include <string>

namespace rowlock::test {

/// A new empty folder, removed with all its contents at the end.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;
  std::filesystem::path const& path() const noexcept { return path_; }
  std::string file(std::string const& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// The private servers that tools/test started, with an account that may do everything: libpq conninfo, and
/// mysql://user:password@host:port/database. They throw if there is none: a test that needs it fails, it is
/// never skipped.
std::string postgresql_conninfo();
std::string mariadb_url();
std::string mysql_url();

/// The same URL with another database.
std::string with_database(std::string url, std::string const& database);

/// A fresh plain identifier, so that tests can share a server: "t" + 12 hexadecimal digits.
std::string unique_identifier();

/// The value of a series, named as it is written ("x_total{a=\"b\"}"), in Prometheus' text format; throws if
/// it is not there.
double metric_in(std::string const& text, std::string const& series);

}  // namespace rowlock::test

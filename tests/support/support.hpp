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

/// libpq conninfo of the private PostgreSQL server that tools/test started, with a superuser's rights. Throws
/// if there is none: a test that needs it fails, it is never skipped.
std::string postgresql_conninfo();

/// URL of the private server of that kind, "mariadb" or "mysql", that tools/test started, with an account that
/// may do everything. With `database`, of that one instead of the usual. Throws if there is none.
std::string mysql_url(std::string const& server, std::string const& database = {});

/// A fresh plain identifier, so that tests can share a server: "t" + 12 hexadecimal digits.
std::string unique_identifier();

}  // namespace rowlock::test

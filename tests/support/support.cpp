#include "support/support.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <stdexcept>

namespace rowlock::test {

namespace {

// In memory if possible: an SQLite file flushes at each commit, which tests of behaviour need not wait for.
// tools/test has chosen already, and says so in TMPDIR.
std::filesystem::path scratch_root() {
  if (std::getenv("TMPDIR") != nullptr) return std::filesystem::temp_directory_path();
  std::filesystem::path const memory = "/dev/shm";
  bool const writable = ::access(memory.c_str(), W_OK) == 0;
  return writable ? memory : std::filesystem::temp_directory_path();
}

std::string server_in(char const* variable) {
  if (char const* set = std::getenv(variable); set != nullptr && *set != '\0') return set;
  throw std::runtime_error(
      fmt::format("{} is not set: run the tests with tools/test, which starts servers", variable));
}

}  // namespace

scratch_folder::scratch_folder() {
  auto pattern = (scratch_root() / "rowlock-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  path_ = pattern;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string postgresql_conninfo() { return server_in("ROWLOCK_TEST_POSTGRESQL"); }
std::string mariadb_url() { return server_in("ROWLOCK_TEST_MARIADB"); }
std::string mysql_url() { return server_in("ROWLOCK_TEST_MYSQL"); }

std::string with_database(std::string url, std::string const& database) {
  return url.replace(url.rfind('/') + 1, url.npos, database);
}

std::string unique_identifier() {
  std::random_device random;
  return fmt::format("t{:08x}{:04x}", random(), random() & 0xffff);
}

double metric_in(std::string const& text, std::string const& series) {
  auto const at = ("\n" + text).find("\n" + series + " ");
  if (at == text.npos) throw std::runtime_error("no " + series + " in:\n" + text);
  return std::stod(text.substr(at + series.size() + 1));
}

}  // namespace rowlock::test

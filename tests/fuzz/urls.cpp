// Which database a URL is for, and whether there is a password in it: --db refuses one, for others can read
// it.
#include <libpq-fe.h>

#include <cstring>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "backend/mysql/url.hpp"
#include "fuzz/bytes.hpp"

using namespace rowlock;

namespace {

/// What libpq takes for a password, if it can read that.
bool libpq_finds_password(std::string const& conninfo) {
  using options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;
  options const all(PQconninfoParse(conninfo.c_str(), nullptr), &PQconninfoFree);
  for (auto const* one = all.get(); one != nullptr && one->keyword != nullptr; ++one)
    if ((std::strcmp(one->keyword, "password") == 0 || std::strcmp(one->keyword, "sslpassword") == 0) &&
        one->val != nullptr && *one->val != '\0')
      return true;
  return false;
}

bool mysql_finds_password(std::string const& url) try {
  auto const read = backend::mysql::read_url(url).url_password;
  return read && !read->empty();
} catch (error const&) {
  return false;
}

void look_at(std::string const& url) {
  auto const known = describe_url(url);
  std::string const back_end = known.back_end;
  if (back_end == "mysql") fuzz::must(known.has_password || !mysql_finds_password(url));
  if (back_end == "postgresql") fuzz::must(known.has_password || !libpq_finds_password(url));
  (void)source_from_url(url).implementation()->describe();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const url(fuzz::as_text(data, size));
  // Files with passwords and services are whoever's who runs this.
  if (url.find("password-file") != url.npos || url.find("service") != url.npos) return 0;
  try {
    look_at(url);
  } catch (error const& e) {
    fuzz::must(e.reason() == errc::invalid_argument || e.reason() == errc::unsupported);
  }
  return 0;
}

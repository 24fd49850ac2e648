#include "support/soci_pool.hpp"

#include <soci/connection-pool.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/postgresql/soci-postgresql.h>
#include <soci/session.h>
#include <soci/sqlite3/soci-sqlite3.h>

#include <regex>
#include <stdexcept>

namespace rowlock::test {
namespace {

bool begins_with(std::string const& text, char const* start) { return text.rfind(start, 0) == 0; }

::soci::backend_factory const& factory_for(std::string const& url) {
  if (begins_with(url, "sqlite:")) return ::soci::sqlite3;
  if (begins_with(url, "mysql:")) return ::soci::mysql;
  return ::soci::postgresql;
}

}  // namespace

std::string soci_connect_string(std::string const& url) {
  if (begins_with(url, "sqlite:")) return url.substr(7);
  if (!begins_with(url, "mysql:")) return url;
  std::smatch part;
  if (!std::regex_match(url, part, std::regex("mysql://([^:]*):([^@]*)@([^:]*):([0-9]+)/(.*)")))
    throw std::runtime_error("not a URL of the tests' servers: " + url);
  return "user=" + part.str(1) + " password=" + part.str(2) + " host=" + part.str(3) +
         " port=" + part.str(4) + " db=" + part.str(5);
}

std::shared_ptr<::soci::connection_pool> make_soci_pool(std::string const& url, int sessions) {
  auto const size = static_cast<std::size_t>(sessions);
  auto pool = std::make_shared<::soci::connection_pool>(size);
  for (std::size_t i = 0; i < size; ++i) pool->at(i).open(factory_for(url), soci_connect_string(url));
  return pool;
}

void open_soci_session(::soci::session& s, std::string const& url) {
  s.open(factory_for(url), soci_connect_string(url));
}

bool has_all_sessions(::soci::connection_pool& pool, int sessions) {
  std::size_t position = 0;
  for (int i = 0; i < sessions; ++i)
    if (!pool.try_lease(position, 5000)) return false;
  for (int i = 0; i < sessions; ++i) pool.give_back(static_cast<std::size_t>(i));
  return true;
}

}  // namespace rowlock::test

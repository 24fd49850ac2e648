#pragma once
// What the cases of MySQL's and MariaDB's sessions have in common.

#include <cppconn/connection.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <mysql_driver.h>

#include <memory>
#include <rowlock/mysql.hpp>
#include <string>
#include <vector>

#include "backend/database.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

inline backend::value ask(backend::connection& c, std::string const& sql) {
  return c.execute({"ask " + sql, sql}, {}, in(20'000)).rows.at(0).at(0);
}

inline std::int64_t own_id(backend::connection& c) {
  return backend::as_int(ask(c, "SELECT connection_id()"));
}

inline std::unique_ptr<backend::connection> connect_to(std::string const& url, int ms = 20'000) {
  return mysql::source(url).implementation()->connect(in(ms));
}

// Until the session executes something, or waits within it; to prepare it is not enough.
inline void wait_until_busy(backend::connection& watch, std::int64_t id, std::string const& in_state = {}) {
  auto const until = in(20'000);
  while (backend::as_int(
             ask(watch, fmt::format("SELECT count(*) FROM information_schema.processlist WHERE id = {} AND "
                                    "command IN ('Execute', 'Query') AND ('{}' IN ('', state))",
                                    id, in_state))) == 0)
    REQUIRE(boot_clock::now() < until);
}

struct parts {
  std::string user, password, host, port, database;
};

inline parts parts_of(std::string const& url) {  // as tests/servers/mariadb prints it
  auto const colon = url.find(':', url.find("//"));
  auto const at = url.find('@');
  auto const port = url.find(':', at);
  auto const slash = url.find('/', port);
  auto const user = url.find("//") + 2;
  return {url.substr(user, colon - user), url.substr(colon + 1, at - colon - 1),
          url.substr(at + 1, port - at - 1), url.substr(port + 1, slash - port - 1), url.substr(slash + 1)};
}

inline ::sql::Connection* open_by_hand(std::string const& url, bool several) {
  auto const p = parts_of(url);
  ::sql::ConnectOptionsMap o;
  o["hostName"] = ::sql::SQLString("tcp://" + p.host + ":" + p.port);
  o["userName"] = ::sql::SQLString(p.user);
  o["password"] = ::sql::SQLString(p.password);
  o["schema"] = ::sql::SQLString(p.database);
  o["CLIENT_FOUND_ROWS"] = true;
  o["CLIENT_MULTI_STATEMENTS"] = several;
  o["OPT_READ_TIMEOUT"] = 20;
  return ::sql::mysql::get_driver_instance()->connect(o);
}

/// A user of the shared server's with few rights, in a database of its own.
class poor_user {
 public:
  explicit poor_user(kind k) : server_(mysql_server_url(k)), name_(unique_identifier()) {
    admin_ = connect_to(server_);
    admin_->script(fmt::format("CREATE DATABASE {0}; CREATE USER {0}@'%' IDENTIFIED BY 'poor'", name_),
                   in(20'000));
  }
  ~poor_user() { admin_->script(fmt::format("DROP USER {0}@'%'; DROP DATABASE {0}", name_), in(20'000)); }
  void grant(std::string const& what) {
    admin_->script(fmt::format("GRANT {} ON {}.* TO {}@'%'", what, name_, name_), in(20'000));
  }
  std::string url(std::string const& password = "poor") const {
    auto const p = parts_of(server_);
    return fmt::format("mysql://{}:{}@{}:{}/{}", name_, password, p.host, p.port, name_);
  }
  backend::connection& admin() { return *admin_; }
  std::string const& name() const { return name_; }

 private:
  std::string server_;
  std::string name_;
  std::unique_ptr<backend::connection> admin_;
};

inline std::vector<backend::value> lock_parameters(std::string const& name) { return with(name); }

}  // namespace rowlock::test

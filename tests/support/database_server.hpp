#pragma once

#include "support/support.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace rowlock::test {

enum class server_kind { postgresql, mariadb, mysql };

/// A database server of a test's own, to be killed, stopped and restarted; ended by the destructor. The
/// address stays the same over restarts. Costs about a second, MySQL three; tests that do no harm to a server
/// share those of postgresql_conninfo(), mariadb_url() and mysql_url().
class database_server {
 public:
  struct options {
    bool durable = false;  ///< flush as in production: for tests of what survives
    int max_connections = 100;
    bool movable_clock = false;                   ///< set_clock() works
    bool galera = false;                          ///< MariaDB only: a cluster of one node
    bool tls = false;                             ///< with a certificate of its own; MySQL has one anyway
    std::vector<std::string> settings{};          ///< lines of its option file: "fsync = on"
    database_server const* standby_of = nullptr;  ///< PostgreSQL only: a copy that follows it
    database_server const* node_of = nullptr;     ///< MariaDB only: another node of its cluster
  };

  explicit database_server(server_kind kind) : database_server(kind, options{}) {}
  database_server(server_kind, options);
  ~database_server();
  database_server(database_server const&) = delete;
  database_server& operator=(database_server const&) = delete;

  /// PostgreSQL's libpq conninfo, or a mysql:// URL, of an account that may do everything.
  std::string const& address() const noexcept { return address_; }
  void kill();     ///< SIGKILL for the server and all its children; returns when they are gone
  void restart();  ///< returns when it takes connections
  void pause();    ///< SIGSTOP for all of it; returns when all is stopped
  void resume();
  void stop();
  /// Moves the server's wall clock to `offset` from the true time, from now on.
  void set_clock(std::chrono::seconds offset);
  /// What the server has logged so far.
  std::string log() const;

 private:
  std::string run(std::string const& verb, std::string const& arguments = {}) const;

  server_kind kind_;
  scratch_folder folder_;
  std::string address_;
};

}  // namespace rowlock::test

#pragma once

#include "support/support.hpp"

#include <chrono>
#include <string>

namespace rowlock::test {

/// A PostgreSQL server of a test's own, to be killed, stopped and restarted; ended by the destructor. The
/// conninfo stays the same over restarts. Costs about a second; tests that do no harm to a server share the
/// one of postgresql_conninfo().
class postgresql_server {
 public:
  struct options {
    bool durable = false;  ///< flush as in production: for tests of what survives
    int max_connections = 100;
    bool movable_clock = false;  ///< set_clock() works (libfaketime)
  };

  postgresql_server() : postgresql_server(options{}) {}
  explicit postgresql_server(options);
  ~postgresql_server();
  postgresql_server(postgresql_server const&) = delete;
  postgresql_server& operator=(postgresql_server const&) = delete;

  std::string const& conninfo() const noexcept { return conninfo_; }
  void kill();     ///< SIGKILL for the postmaster and all its children; returns when they are gone
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

  scratch_folder folder_;
  std::string conninfo_;
};

}  // namespace rowlock::test

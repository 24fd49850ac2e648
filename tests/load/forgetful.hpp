#pragma once
// Database servers that forget commits which they have acknowledged.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "support/database_server.hpp"

namespace rowlock::test {

class forgetful {
 public:
  struct options {
    unsigned seed = 1;  ///< decides what is left open
    std::chrono::milliseconds
        longest{};        ///< this lease is granted once, before anything is forgotten; 0: none
    int names = 0;        ///< so many rows are in the table counters: n0, n1 and so on
    bool behind = false;  ///< what comes back has a clock that is 30 s behind
    bool lazy = false;    ///< MySQL, MariaDB, crash: the log is written each 3 s instead of each second
  };
  virtual ~forgetful() = default;
  forgetful(forgetful const&) = delete;
  forgetful& operator=(forgetful const&) = delete;

  virtual std::string address() const = 0;                 ///< for managers
  virtual std::vector<std::string> addresses() const = 0;  ///< the same for programs, a server each
  virtual void lag() = 0;                                  ///< what is committed from now on can be forgotten
  virtual void kill() = 0;                                 ///< the server dies
  virtual void come_back() = 0;                            ///< returns when what is left takes writes
  virtual std::int64_t number(std::string const& sql) = 0;  ///< asked of what came back
  /// A pulse as if nothing had to be waited for.
  virtual void pulse_at_once() = 0;

  static std::vector<std::string> kinds();
  static bool is_postgresql(std::string const& kind) { return kind.ends_with("-postgresql"); }

 protected:
  forgetful() = default;
};

/// `kind`: one of forgetful::kinds().
std::unique_ptr<forgetful> make_forgetful(std::string const& kind, forgetful::options const&);

}  // namespace rowlock::test

#pragma once
// Names of hosts become addresses here, with a deadline, which getaddrinfo(3) does not have.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <rowlock/error.hpp>
#include <rowlock/export.hpp>
#include <string>
#include <vector>

#include "base/event.hpp"
#include "base/task_queue.hpp"

namespace rowlock::backend {

/// A question to the system's resolver. Thread-safe.
class ROWLOCK_EXPORT lookup {
 public:
  /// Readable once it is answered, and for ever after.
  base::event const& answered() const noexcept { return answered_; }
  bool is_answered() const noexcept;
  /// Once it is answered: in the order in which they are to be tried, IPv6 and IPv4 in turn. A host that is
  /// written as an address is its own only one.
  std::vector<std::string> const& addresses() const noexcept { return addresses_; }
  /// Once it is answered: why there are no addresses, for a message.
  std::string const& problem() const noexcept { return problem_; }

 private:
  friend class resolver;
  void ask(std::string const& host) noexcept;

  boot_time_point const begun_ = boot_clock::now();
  std::vector<std::string> addresses_;
  std::string problem_;
  base::event answered_;
};

/// Asks the system's resolver by threads of its own. Nothing ends a call of getaddrinfo() early: where a DNS
/// server is silent it lasts as long as /etc/resolv.conf says. So a caller waits for the answer, not for the
/// thread. Questions for one name are one question while it is young. There are a few threads at most,
/// however long the resolver is silent; more questions wait in line. Thread-safe.
class ROWLOCK_EXPORT resolver {
 public:
  /// Waits for nothing. @throws std::system_error if no thread or descriptor can be had for it
  std::shared_ptr<lookup const> look_up(std::string const& host);

 private:
  void answer(std::string const& host, std::shared_ptr<lookup> const&);

  // As many names as one process may be expected to use, and more.
  static constexpr std::size_t most_threads = 32;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<lookup>> under_way_;
  base::task_queue threads_{"rowlock-names", most_threads};  // last: they use the others
};

/// The same by the process's own resolver, which is never destroyed: at the process's end a thread may still
/// be in the system's. @throws error(errc::unreachable) instead
ROWLOCK_EXPORT std::shared_ptr<lookup const> look_up(std::string const& host);

/// The addresses of a host. `where`: for the message.
/// @throws error(errc::unreachable) if there are none, or none are known at the deadline
ROWLOCK_EXPORT std::vector<std::string> addresses_of(std::string const& host, std::string const& where,
                                                     boot_time_point deadline);

/// Why a host can't be reached whose addresses are not known.
ROWLOCK_EXPORT error no_address(std::string const& host, std::string const& where,
                                std::string const& problem = {});

/// What attempt(address, until) returns for the first of the host's addresses at which it throws no
/// error(errc::unreachable). Each gets its share of the time.
template <class Attempt>
auto at_one_address(std::string const& host, std::string const& where, boot_time_point deadline,
                    Attempt const& attempt) {
  auto const all = addresses_of(host, where, deadline);
  for (auto one = all.begin();; ++one) {
    auto const now = boot_clock::now();
    try {
      return attempt(*one, now + std::max(deadline - now, {}) / (all.end() - one));
    } catch (error const& e) {
      if (e.reason() != errc::unreachable || one + 1 == all.end() || boot_clock::now() >= deadline) throw;
    }
  }
}

}  // namespace rowlock::backend

#pragma once
// Looks up host names with a deadline, which getaddrinfo(3) does not have: with a silent DNS server it lasts
// as long as /etc/resolv.conf says. So threads of rowlock call it, and a caller waits for the answer, not for
// the thread.

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
  /// Readable from the answer on.
  base::event const& answered() const noexcept { return answered_; }
  bool is_answered() const noexcept;
  /// After the answer: in the order to try them, IPv6 and IPv4 in turn. An address as host is its own only
  /// one.
  std::vector<std::string> const& addresses() const noexcept { return addresses_; }
  /// After the answer: why there are no addresses, for a message.
  std::string const& problem() const noexcept { return problem_; }

 private:
  friend class resolver;
  void ask(std::string const& host) noexcept;

  boot_time_point const begun_ = boot_clock::now();
  std::vector<std::string> addresses_;
  std::string problem_;
  base::event answered_;
};

/// Asks the system's resolver on a few threads. Calls for one name share one question while it is young.
/// Further questions wait for a free thread. Thread-safe.
class ROWLOCK_EXPORT resolver {
 public:
  /// Never waits. @throws std::system_error if no thread or descriptor is left
  std::shared_ptr<lookup const> look_up(std::string const& host);

 private:
  void answer(std::string const& host, std::shared_ptr<lookup> const&);

  // More names than one process is expected to use.
  static constexpr std::size_t most_threads = 32;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<lookup>> under_way_;
  base::task_queue threads_{"rowlock-names", most_threads};  // last: they use the other members
};

/// The same by the process's own resolver. It is never destroyed: at the process's end a thread can still be
/// in the system's. @throws error(errc::unreachable) instead
ROWLOCK_EXPORT std::shared_ptr<lookup const> look_up(std::string const& host);

/// The addresses of a host. `where` is for the message.
/// @throws error(errc::unreachable) if there are none, or none are known at the deadline
ROWLOCK_EXPORT std::vector<std::string> addresses_of(std::string const& host, std::string const& where,
                                                     boot_time_point deadline);

ROWLOCK_EXPORT error no_address(std::string const& host, std::string const& where,
                                std::string const& problem = {});

/// Calls attempt(address, until) for each address until a call throws no error(errc::unreachable), and
/// returns its result. Each address gets its share of the time.
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

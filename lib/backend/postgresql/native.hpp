#pragma once
// Owners of libpq's objects, and connections whose waits end at a deadline.

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

#include "backend/reply_size.hpp"
#include "backend/wire_watch.hpp"
#include "base/fork_epoch.hpp"
#include "base/stop_event.hpp"

namespace rowlock::backend::postgresql {

struct finish {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
using native_connection = std::unique_ptr<PGconn, finish>;

struct clear {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using native_result = std::unique_ptr<PGresult, clear>;

/// Waits until `fd` is ready for `events` (poll(2)). @return false at the deadline
bool wait_for(int fd, short events, boot_time_point deadline);
/// As above. Also returns true when `stop` is triggered.
bool wait_for(int fd, short events, boot_time_point deadline, base::stop_event const& stop);

/// The reply to a request.
struct reply {
  enum class outcome {
    complete,  ///< the results are final, the server is ready
    timed_out,
    lost,
    stopped,  ///< the caller's stop came first
  };
  outcome how = outcome::complete;
  std::vector<native_result> results;
  bool only_local = false;  ///< committed, but a synchronous standby might lack it
  std::string message;      ///< if timed_out or lost, for people
  reply_size size{};
};

/// A connection in non-blocking mode. Not movable: libpq keeps its address for notices.
class channel {
 public:
  explicit channel(native_connection);
  ~channel();
  channel(channel const&) = delete;
  channel& operator=(channel const&) = delete;

  PGconn* native() const noexcept { return connection_.get(); }
  bool open() const noexcept { return connection_ != nullptr; }
  /// True in a forked child: the session is the parent's.
  bool forked() const noexcept;

  /// Whether the server still keeps the idle session, as far as known without asking it.
  bool alive();
  /// After one of libpq's PQsend functions: reads until the server is ready again.
  reply collect(boot_time_point deadline);
  /// In pipeline mode: reads up to the synchronization point, or until `stop` is triggered.
  reply collect_pipelined(boot_time_point deadline, base::stop_event const* stop = nullptr);
  /// Raises the limit of a reply after the session's set-up.
  void expect_long_replies() noexcept { most_bytes_ = most_reply_bytes; }

  /// Ends the session. In a forked child it sends nothing.
  void close() noexcept;
  std::string error_message() const;

 private:
  static void on_notice(void* self, PGresult const*);
  void take_results(reply&);
  void end_reply(reply&);

  native_connection connection_;
  std::shared_ptr<wire> wire_;  ///< null if no descriptor was left for it
  unsigned epoch_ = base::fork_epoch();
  std::uint64_t most_bytes_ = most_early_bytes;
  bool only_local_ = false;
  bool ended_ = false;
};

/// libpq's text with its lines joined, safe for a terminal.
std::string one_line(std::string_view message);

}  // namespace rowlock::backend::postgresql

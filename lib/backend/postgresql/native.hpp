#pragma once
// libpq's objects with an owner, and connections whose waits end at a deadline.

#include <libpq-fe.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

#include "backend/reply_size.hpp"
#include "backend/wire.hpp"
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

/// Waits until `fd` is ready for `events` (poll(2)) or the deadline has passed. @return false at the
/// deadline.
bool wait_for(int fd, short events, boot_time_point deadline);
/// As wait_for(), and returns true also when `stop` is triggered.
bool wait_for(int fd, short events, boot_time_point deadline, base::stop_event const& stop);

/// What came back of something that was sent.
struct reply {
  enum class outcome {
    complete,   ///< the server is ready for the next query: what the results say is final
    timed_out,  ///< the deadline passed first
    lost,       ///< the connection ended first
    stopped,    ///< the caller's stop came first
  };
  outcome how = outcome::complete;
  std::vector<native_result> results;
  bool only_local = false;  ///< committed, but the wait for the synchronous standby was cancelled
  std::string message;      ///< timed_out, lost: for people
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
  /// True in a child that was forked after this was made: the session is the parent's.
  bool forked() const noexcept;

  /// Whether the server still keeps an idle session, as far as can be seen without asking it.
  bool alive();
  /// After one of libpq's PQsend functions: everything until the server is ready again.
  reply collect(boot_time_point deadline);
  /// The same in pipeline mode, up to the synchronization point; or until `stop`, if given, is triggered.
  reply collect_pipelined(boot_time_point deadline, base::stop_event const* stop = nullptr);
  /// The SQLSTATE of the last message of level INFO since forget_information(); empty if there was none.
  std::string const& informed() const noexcept { return informed_; }
  void forget_information() noexcept { informed_.clear(); }
  /// From now on replies may be as long as a list of locks; before, as long as what a session's set-up says.
  void expect_long_replies() noexcept { most_bytes_ = most_reply_bytes; }

  /// Ends the session; in a forked child only forgets it and sends nothing to the server.
  void close() noexcept;
  std::string error_message() const;

 private:
  static void on_notice(void* self, PGresult const*);
  void begin_reply();
  bool read(reply&);
  void take_results(reply&);
  void collect_pipeline(reply&, boot_time_point deadline, base::stop_event const* stop);
  void end_reply(reply&);

  native_connection connection_;
  pid_t process_;
  std::uint64_t most_bytes_ = most_early_bytes;  ///< of a reply
  std::uint64_t until_bytes_ = 0;                ///< of the one that is read
  bool only_local_ = false;
  bool ended_ = false;
  std::string informed_;
};

/// libpq's text without its trailing newlines, its lines joined, and without control characters for a
/// terminal.
std::string one_line(std::string_view message);

}  // namespace rowlock::backend::postgresql

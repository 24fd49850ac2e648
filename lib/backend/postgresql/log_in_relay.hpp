#pragma once

#include <libpq-fe.h>
#include <sys/types.h>

#include <optional>
#include <rowlock/types.hpp>
#include <string>

#include "backend/postgresql/log_in_filter.hpp"

namespace rowlock::backend::postgresql {

/// Stands between libpq and a TCP connection while libpq logs in: libpq's descriptor is made one end of a
/// pair of sockets, and what comes from the server is passed on by the thread that connects, once the filter
/// has seen it. When the log-in is done, the descriptor is the connection's own again.
class log_in_relay {
 public:
  explicit log_in_relay(PGconn* c) noexcept : libpq_(c) {}
  ~log_in_relay();
  log_in_relay(log_in_relay const&) = delete;
  log_in_relay& operator=(log_in_relay const&) = delete;

  /// After each PQconnectPoll: until libpq can go on. @return false at the deadline
  /// @throws log_in_refused
  bool wait(PostgresPollingStatusType, boot_time_point deadline);
  /// The log-in is done: libpq gets its socket back. @throws log_in_refused
  void leave();

 private:
  void follow();
  void stand_between();
  void drop() noexcept;
  bool stands() const;
  bool pass_on_to_server(boot_time_point deadline);
  void pass_on_to_libpq(std::string_view);
  bool readable_for_libpq() const;
  void look_inside();

  PGconn* libpq_;
  int server_ = -1;  ///< the connection
  int inner_ = -1;   ///< our end of the pair
  ino_t outer_ = 0;  ///< libpq's end
  bool ended_ = false;
  std::size_t left_inside_ = 0;
  std::optional<log_in_filter> filter_;
};

}  // namespace rowlock::backend::postgresql

#pragma once
// The socket that a connection has.

#include <sys/types.h>

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "backend/wire_watch.hpp"

namespace rowlock::backend::mysql {

class own_socket final : public wire {
 public:
  /// For a descriptor that is the connection's now; null if it is not a socket, or no descriptor is left.
  /// It is not inherited by programs that are started from now on: the driver leaves it open for those, and
  /// the server would not see the end of this process as long as one of them runs.
  static std::shared_ptr<own_socket> of(int fd);

  /// Whether the other end has closed the connection, or sent something unasked, which it does only before it
  /// closes.
  bool hung_up() const noexcept;
  /// Whether the driver's descriptor is still that socket.
  bool is(int fd) const noexcept;
  /// In a forked child: closes this process's copies and sends nothing to the server.
  void close_copies() noexcept;
  /// If the wire is cut while nothing is sent, this is noticed after 11 s, as on PostgreSQL. The system's own
  /// keepalives need two hours, longer than most firewalls remember a silent connection.
  void keep_alive() const noexcept;
  void describe(session_facts& to) const noexcept;

 private:
  own_socket(int copy, int original, ino_t inode) noexcept : wire(copy), original_(original), inode_(inode) {}

  int original_;
  ino_t inode_;
};

}  // namespace rowlock::backend::mysql

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
  /// Of a descriptor that is the connection's now; null if it is no socket, or there is no descriptor left.
  /// It is not inherited by programs that are started from now on: the driver leaves it open for those, and
  /// the server would not see the end of this process as long as one of them runs.
  static std::shared_ptr<own_socket> of(int fd);

  /// Whether the other end has hung up, or said something unasked, which it does only before it hangs up.
  bool hung_up() const noexcept;
  /// Whether the driver's descriptor is still that socket.
  bool is(int fd) const noexcept;
  /// In a forked child: closes this process's copies, without a word to the server.
  void close_copies() noexcept;
  /// A wire that is cut while nothing is said is noticed after 11 s, as on PostgreSQL: the system's own
  /// keepalives need two hours, longer than most firewalls remember a silent connection.
  void keep_alive() const noexcept;
  void describe(session_facts& to) const noexcept;

 private:
  own_socket(int copy, int original, ino_t inode) noexcept : wire(copy), original_(original), inode_(inode) {}

  int original_;
  ino_t inode_;
};

}  // namespace rowlock::backend::mysql

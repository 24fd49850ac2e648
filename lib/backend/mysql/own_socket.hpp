#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "backend/wire_watch.hpp"

namespace rowlock::backend::mysql {

class own_socket final : public wire {
 public:
  /// Null if `fd` is no socket, or no descriptor is left. Sets close-on-exec: otherwise the server would not
  /// see this process's end while a program that it has started runs.
  static std::shared_ptr<own_socket> of(int fd);

  /// Whether the peer closed the connection, or sent something unasked, which it does only before it closes.
  bool hung_up() const noexcept;
  /// Whether `fd` is the driver's descriptor, and still this socket.
  bool is(int fd) const noexcept;
  /// In a forked child: closes its descriptors, and sends nothing.
  void close_copies() noexcept;
  /// Notices a cut wire after 11 s of silence, as on PostgreSQL. The system's default is two hours, longer
  /// than most firewalls remember a silent connection.
  void keep_alive() const noexcept;
  void describe(session_facts& to) const noexcept;

 private:
  own_socket(int copy, int original, ino_t inode) noexcept : wire(copy), original_(original), inode_(inode) {}

  int original_;
  ino_t inode_;
};

}  // namespace rowlock::backend::mysql

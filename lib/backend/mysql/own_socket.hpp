#pragma once
// The socket that a connection has; Connector/C++ tells it nobody.

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::mysql {

/// The connection's end of its socket, by a second descriptor for it: the driver closes its own when it
/// likes, and then that number may be anybody's.
class own_socket {
 public:
  /// Nothing if the descriptor is not (or no longer) that socket.
  static std::shared_ptr<own_socket> find(int fd, ino_t inode);
  /// Of a descriptor that is certain to be the connection's now. It is not inherited by programs that are
  /// started from now on, see socket_search.
  static std::shared_ptr<own_socket> of(int fd);
  own_socket(own_socket const&) = delete;
  own_socket& operator=(own_socket const&) = delete;
  ~own_socket();

  /// Whether the other end has hung up, or said something unasked, which it does only before it hangs up.
  bool hung_up() const noexcept;
  /// Ends the connection, also under a thread that waits for something to come.
  void shut_down() const noexcept;
  /// In a forked child: closes this process's copies, without a word to the server.
  void close_copies() noexcept;
  /// Whether it is connected to that TCP port, or Unix socket if `path` is not empty.
  bool leads_to(int port, std::string const& path) const;
  /// A wire that is cut while nothing is said is noticed after 11 s, as on PostgreSQL: the system's own
  /// keepalives need two hours, longer than most firewalls remember a silent connection.
  void keep_alive() const noexcept;
  void describe(session_facts& to) const noexcept;
  /// This end's TCP port; 0 if it has none.
  int local_port() const noexcept;

 private:
  own_socket(int copy, int original, ino_t inode) noexcept
      : copy_(copy), original_(original), inode_(inode) {}

  int copy_;
  int original_;
  ino_t inode_;
};

/// Finds what a connection opens between this object's construction and find().
class socket_search {
 public:
  socket_search();

  /// The new sockets that lead there: more than one if other threads are connecting to the same server. None
  /// of them is inherited by programs that are started from now on: the connector leaves them open for those,
  /// and the server would not see the end of this process as long as one of them runs.
  std::vector<std::shared_ptr<own_socket>> find(int port, std::string const& path) const;

 private:
  std::vector<std::pair<int, ino_t>> before_;
};

}  // namespace rowlock::backend::mysql

#pragma once
// The socket that a connection of the connector's has, which it tells nobody.

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rowlock::backend::mysql {

/// A socket of this process, known by its inode as well, so that another one that got its number is not taken
/// for it.
class own_socket {
 public:
  own_socket(int fd, ino_t inode) noexcept : fd_(fd), inode_(inode) {}

  /// Whether the other end has hung up, or said something unasked, which it does only before it hangs up.
  bool hung_up() const noexcept;
  /// In a forked child: closes this process's copy, without a word to the server.
  void close_copy() const noexcept;

 private:
  bool is_still_there() const noexcept;

  int fd_;
  ino_t inode_;
};

/// Finds what a connection opens between this object's construction and find().
class socket_search {
 public:
  socket_search();

  /// The new socket that is connected to that TCP port, or Unix socket if `path` is not empty; nothing if
  /// there is not exactly one (other threads may be connecting to the same server). Whichever it is, none of
  /// them is inherited by programs that are started from now on: the connector leaves them open for those,
  /// and the server would not see the end of this process as long as one of them runs.
  std::optional<own_socket> find(int port, std::string const& path) const;

 private:
  std::vector<std::pair<int, ino_t>> before_;
};

}  // namespace rowlock::backend::mysql

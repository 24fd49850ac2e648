#pragma once
// From the first byte of a connection to the end of its log-in. The server is not known yet: whatever is
// there in its place may send anything, or nothing. The client library has hooks by which it can be watched;
// lib/doc/wire.md says why that is needed.

#include <mysql.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "backend/mysql/own_socket.hpp"
#include "backend/wire_watch.hpp"

namespace rowlock::backend::mysql {

/// Where a connection goes to.
struct way {
  std::string host{};         ///< what its certificate must say, if that is looked at
  std::string address{};      ///< where to find it; empty: at `host`
  std::string unix_socket{};  ///< the way to the server, if it is not by TCP
};

/// While it lives, the calling thread connects: with a connection that was passed to allow() or watch(), or
/// through Connector/C++ to scheme_url(). One at a time in each thread.
class handshake {
 public:
  handshake(boot_time_point deadline, bool verified, way to);
  ~handshake();
  handshake(handshake const&) = delete;
  handshake& operator=(handshake const&) = delete;

  /// What the client library may do for a server: only log in by methods that don't give the password away,
  /// never read a file for it, and wait as long as this thread's handshake says.
  void allow(MYSQL&);
  /// The last of these alone: the methods are the program's own business.
  static void watch(MYSQL&);
  /// Puts back what is the program's own.
  static void leave(MYSQL&) noexcept;

  /// The name that makes Connector/C++ hand its connection to us before it is made:
  /// "tcp://[NAME://HOST]:PORT".
  static std::string scheme_url(std::string const& host, int port);

  /// The connection's, once there is one.
  std::shared_ptr<own_socket> const& socket() const noexcept { return socket_; }
  /// The client library's connection that was made last; null if it is not the one with socket().
  MYSQL* connection() const noexcept;
  std::string const& unix_socket() const noexcept { return to_.unix_socket; }
  std::string const& address() const noexcept { return to_.address; }
  /// What is to be given to the client library as the host, in `room` of host_room() bytes: the library
  /// reads the address there, and once that is connected, the host's name, which the certificate must say.
  void write_host(char* room) noexcept;
  std::size_t host_room() const noexcept { return std::max(to_.host.size(), to_.address.size()) + 1; }
  /// The same in a room of this object's.
  char const* host();
  /// Why it was ended by us, if it was; to be put behind a message.
  std::string why() const;

  static handshake* of_this_thread() noexcept;
  /// At most this many milliseconds are left, of the library's own limit.
  int wait_on(int fd, int timeout);
  /// After that. @return false if what the server sent first is nothing that the library may read
  bool may_read(bool writable);

 private:
  void name_host() noexcept;

  boot_time_point const deadline_;
  bool const verified_;
  way const to_;
  std::string room_;
  char* host_ = nullptr;  ///< still says the address
  std::shared_ptr<own_socket> socket_;
  std::optional<wire_watch::scope> limit_;
  MYSQL* connection_ = nullptr;
  bool connecting_ = false;
  bool no_greeting_ = false;
};

}  // namespace rowlock::backend::mysql

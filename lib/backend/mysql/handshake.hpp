#pragma once
// From a connection's first byte to the end of its log-in. The peer is unknown, and can send anything, or
// nothing. Hooks of the client library let rowlock watch it (lib/doc/wire.md).

#include <mysql.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "backend/mysql/own_socket.hpp"
#include "backend/wire_watch.hpp"

namespace rowlock::backend::mysql {

struct way {
  std::string host{};         ///< the certificate's name, if it is verified
  std::string address{};      ///< empty: `host`
  std::string unix_socket{};  ///< empty: by TCP
};

/// Watches this thread's connection while it lives: one passed to allow() or watch(), or Connector/C++'s to
/// scheme_url(). One at a time.
class handshake {
 public:
  handshake(boot_time_point deadline, bool verified, way to);
  ~handshake();
  handshake(handshake const&) = delete;
  handshake& operator=(handshake const&) = delete;

  /// Allows the client library only log-in methods that keep the password secret, no files for a server,
  /// short packets, and waits that wait_on() limits.
  void allow(MYSQL&);
  /// Only limits waits: the program chooses the methods.
  static void watch(MYSQL&);
  /// Ends the limits on waits and methods.
  static void leave(MYSQL&) noexcept;

  /// The host by which Connector/C++ hands us its connection before it connects: "tcp://[NAME://HOST]:PORT".
  static std::string scheme_url(std::string const& host, int port);

  /// Null until there is a connection.
  std::shared_ptr<own_socket> const& socket() const noexcept { return socket_; }
  /// The client library's last connection; null if it does not have socket().
  MYSQL* connection() const noexcept;
  std::string const& unix_socket() const noexcept { return to_.unix_socket; }
  std::string const& address() const noexcept { return to_.address; }
  /// Writes the client library's host into `room`, of host_room() bytes: first the address, and from the
  /// first wait on the host's name, which the certificate must have.
  void write_host(char* room) noexcept;
  std::size_t host_room() const noexcept { return std::max(to_.host.size(), to_.address.size()) + 1; }
  /// The same, in this object's memory.
  char const* host();
  /// Why rowlock ended it, for the end of a message; empty if it did not.
  std::string why() const;

  static handshake* of_this_thread() noexcept;
  /// @return milliseconds to wait, at most `timeout`, the library's own limit (negative: none)
  int wait_on(int fd, int timeout);
  /// After that wait. @return false if the library may not read the first packet
  bool may_read(bool writable);

 private:
  void name_host() noexcept;

  boot_time_point const deadline_;
  bool const verified_;
  way const to_;
  std::string room_;
  char* host_ = nullptr;  ///< null once it has the name
  std::shared_ptr<own_socket> socket_;
  std::optional<wire_watch::scope> limit_;
  MYSQL* connection_ = nullptr;
  bool connecting_ = false;
  bool no_greeting_ = false;
};

}  // namespace rowlock::backend::mysql

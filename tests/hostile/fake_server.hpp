#pragma once
// A server that says what a test wants: to whoever connects, in a thread for each.

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rowlock::test {

/// The server's end of one connection.
class peer {
 public:
  explicit peer(int fd) noexcept : fd_(fd) {}

  /// From now on what `how` makes of a text is said in its place.
  void change(std::function<std::string(std::string_view)> how) { change_ = std::move(how); }
  /// From now on a client that is silent for so long has gone.
  void expect_within(std::chrono::milliseconds);

  /// @return false if the client has gone
  bool say(std::string_view);
  /// Exactly so many bytes, or fewer if the client goes before.
  std::string hear(std::size_t);
  /// Until the client goes. @return what it still said
  std::string hear_all();
  /// One byte each 200 ms, again and again from the beginning, until the client goes.
  void drip(std::string_view);
  /// Again and again without a pause, until the client goes.
  void flood(std::string const&);

 private:
  bool send(std::string_view);

  int fd_;
  std::function<std::string(std::string_view)> change_;
};

/// On 127.0.0.1. At its end all clients are hung up on.
class fake_server {
 public:
  explicit fake_server(std::function<void(peer&)> talk);
  ~fake_server();
  fake_server(fake_server const&) = delete;
  fake_server& operator=(fake_server const&) = delete;

  int port() const noexcept { return port_; }
  /// What talk() left here, of all connections.
  void note(std::string_view heard);
  std::string noted() const;

 private:
  void accept_all();

  std::function<void(peer&)> talk_;
  int listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::string noted_;
  bool over_ = false;
  std::list<int> fds_;
  std::list<std::jthread> talks_;
  std::jthread accepter_;
};

namespace mysql_says {

std::string packet(int number, std::string_view payload);
std::string column(int number, char type = '\xfd');
std::string end_of_columns(int number, bool more = false);  ///< and of rows
/// What a MariaDB server says first; `method` is how it wants the client to log in.
std::string greeting(std::string const& method = "mysql_native_password");
std::string log_in_otherwise(int number, std::string const& method);
std::string ok(int number, bool more = false);
std::string refused(int number, std::string const& message);
/// What comes before the rows of a result, from packet `number` on.
std::string columns(int many = 1, int number = 1);
std::string one_row(int number, std::string const& text);

}  // namespace mysql_says

/// A client's packet, without its head.
std::string hear_mysql_packet(peer&);

namespace postgresql_says {

std::string message(char type, std::string_view payload);
std::string number(std::uint32_t);  ///< four bytes
std::string log_in_by(std::uint32_t method, std::string_view more = {});
std::string logged_in(std::string const& version = "15.6");
std::string refused(std::string const& text);
std::string columns(std::size_t many = 1);
std::string row(std::vector<std::string> const&);
std::string one_row(std::string const& text);
std::string completed(std::string const& tag);

}  // namespace postgresql_says

/// The client's first words; requests for encryption are declined.
void hear_postgresql_start(peer&);

}  // namespace rowlock::test

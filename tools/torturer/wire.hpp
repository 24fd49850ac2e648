#pragma once
// Between the clients and the server: a process that forwards their connections, and can lose what the server
// answers. A request whose reply is lost was done, and its sender can't know.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace rowlock::torture {

class wire {
 public:
  /// Forwards to the port of 127.0.0.1 that the address names. This process must have no other thread.
  /// @throws std::runtime_error if it names none; std::system_error
  explicit wire(std::string const& address);
  wire(wire const&) = delete;
  wire& operator=(wire const&) = delete;
  ~wire();

  /// The same address, by way of this.
  std::string const& address() const noexcept { return address_; }
  /// For so long requests reach the server, and its answers are lost. Then every connection of that time
  /// ends.
  void lose_answers(std::chrono::milliseconds);

 private:
  std::string address_;
  int orders_ = -1;
  pid_t pid_ = 0;
};

}  // namespace rowlock::torture

#pragma once
// Between the clients and the server: a process that forwards their connections, and can lose what either
// side says. A request whose reply is lost was done, and its sender can't know.

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

  /// @throws std::runtime_error if the address names none
  static std::uint16_t port_in(std::string const& address);
  /// The same address, by way of this.
  std::string const& address() const noexcept { return address_; }
  /// For so long requests reach the server, and its answers are lost. Then every connection of that time
  /// ends.
  void lose_answers(std::chrono::milliseconds);
  /// For so long whatever either side says is lost, and neither is told; also on connections that are new.
  /// Then all of them end.
  void lose_everything(std::chrono::milliseconds);
  /// For so long the server's answers are kept back; then they arrive.
  void delay_answers(std::chrono::milliseconds);
  /// The clients' ends are reset at once. The server's stay open for so long, and then end.
  void leave_half_open(std::chrono::milliseconds);

  /// The process that has the connections to the server.
  pid_t process() const noexcept { return pid_; }

 private:
  void order(char);
  std::string address_;
  int orders_ = -1;
  pid_t pid_ = 0;
};

}  // namespace rowlock::torture

// What tools/bench --delayed puts in front of the servers and into them.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "support/child_process.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto delay = 50ms;

/// A stream on 127.0.0.1, or what listens for some.
class end_point {
 public:
  explicit end_point(int fd) : fd_(fd) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "socket");
  }
  end_point(end_point&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  end_point& operator=(end_point&&) = delete;
  ~end_point() {
    if (fd_ >= 0) ::close(fd_);
  }

  static end_point listening() {
    end_point made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::listen(made.fd_, 1) == 0);
    return made;
  }
  static end_point connected(int port) {
    end_point made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(made.fd_, reinterpret_cast<sockaddr const*>(&to), sizeof to) == 0);
    return made;
  }
  end_point accept() const { return end_point(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)); }
  int port() const {
    sockaddr_in here{};
    socklen_t size = sizeof here;
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size) == 0);
    return ntohs(here.sin_port);
  }

  void say(std::string const& text) const {
    REQUIRE(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  void say_no_more() const { ::shutdown(fd_, SHUT_WR); }
  /// So many bytes, or less at the end.
  std::string hear(std::size_t size) const {
    std::string heard(size, ' ');
    auto const got = ::recv(fd_, heard.data(), size, MSG_WAITALL);
    heard.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return heard;
  }

 private:
  int fd_;
};

/// Both ends of a connection through the relay.
struct relayed {
  end_point listener = end_point::listening();
  child_process relay{{ROWLOCK_BENCH_RELAY, std::to_string(listener.port()),
                       std::to_string(std::chrono::microseconds(delay).count())}};
  end_point client = end_point::connected(std::stoi(relay.next_line().value()));
  end_point server = listener.accept();
};

TEST_CASE("bench: the relay holds each chunk for its time, both ways, and keeps their order") {
  relayed const both;
  for (auto const& [from, to] :
       {std::pair(&both.client, &both.server), std::pair(&both.server, &both.client)}) {
    std::string const letters = "abcdefghijklmnopqrstuvwxyz";
    std::vector<clock::time_point> said;
    for (char const letter : letters) {
      said.push_back(clock::now());
      from->say({letter});
    }
    std::string heard;
    for (auto const then : said) {
      heard += to->hear(1);
      CHECK(clock::now() - then >= delay);
    }
    CHECK(heard == letters);
  }
}

TEST_CASE("bench: the relay passes on what is large, and that a side says no more") {
  relayed const both;
  std::string const large(200'000, 'x');
  both.client.say(large);
  both.client.say_no_more();
  CHECK(both.server.hear(large.size() + 1) == large);
  // The other one still speaks.
  both.server.say("yes");
  auto const ended = clock::now();
  both.server.say_no_more();
  CHECK(both.client.hear(4) == "yes");
  CHECK(clock::now() - ended >= delay);
}

TEST_CASE("bench: the relay ends when its output has no reader") {
  auto const listener = end_point::listening();
  child_process shell({"/bin/bash", "-c",
                       "exec {relay}< <(" ROWLOCK_BENCH_RELAY " \"$0\" 0); read -r port <&$relay; "
                       "exec {relay}<&-; wait $!; echo \"ended: $?\"",
                       std::to_string(listener.port())});
  CHECK(shell.next_line() == "ended: 0");
}

TEST_CASE("bench: with what is preloaded, a flush takes 2 ms at least") {
  scratch_folder const folder;
  std::ofstream(folder.file("data")) << "x";
  for (auto const* const how : {"--data", "--"}) {  // by fdatasync, by fsync
    std::vector<std::string> words{"/usr/bin/env", "LD_PRELOAD=" ROWLOCK_BENCH_FLUSH, "/bin/sync", how};
    words.insert(words.end(), 50, folder.file("data"));
    auto const began = clock::now();
    CHECK(child_process(words).finish() == 0);
    CHECK(clock::now() - began >= 100ms);
  }
}

}  // namespace
}  // namespace rowlock::test

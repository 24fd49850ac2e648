#pragma once
// For programs that run in a network namespace of their own: its loopback interface, and their lines.

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <system_error>

namespace rowlock::test {

inline void set_loopback(bool up) {
  int const any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool done = ::ioctl(any, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  done = done && ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
  ::close(any);
  if (!done) throw std::system_error(errno, std::generic_category(), "the interface of this namespace");
}

using clock_type = std::chrono::steady_clock;

inline bool all_good = true;

/// A line for a person, and the verdict.
inline void report(std::string const& role, clock_type::time_point since, std::string const& came,
                   bool good) {
  auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - since).count();
  good = good && ms < 60'000;
  std::cout << (good ? "good " : "BAD ") << role << ": " << came << ", " << ms << " ms" << std::endl;
  all_good = all_good && good;
}

}  // namespace rowlock::test

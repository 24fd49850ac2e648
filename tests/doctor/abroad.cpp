// In a network namespace of its own, in which the loopback interface has one more address, which is not one
// of loopback's; what the doctor says of encryption on the way there. A program, because a namespace is a
// process's:
//   unshare --net rowlock_abroad postgresql|postgresql-tls|mariadb|mysql
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <regex>
#include <rowlock/rowlock.hpp>
#include <system_error>

#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr char const* address = "192.0.2.1";  // for documentation: nobody's

void set_up_network() {
  int const any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  bool done = ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
  ifreq second{};
  std::strcpy(second.ifr_name, "lo:1");
  sockaddr_in where{};
  where.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &where.sin_addr);
  std::memcpy(&second.ifr_addr, &where, sizeof where);
  done = done && ::ioctl(any, SIOCSIFADDR, &second) == 0;
  ::close(any);
  if (!done) throw std::system_error(errno, std::generic_category(), "the interface of this namespace");
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const kind = argc == 2 ? argv[1] : "";
  set_up_network();
  bool const tls = kind == "postgresql-tls";
  bool const postgresql = tls || kind == "postgresql";
  database_server const server(
      postgresql          ? server_kind::postgresql
      : kind == "mariadb" ? server_kind::mariadb
                          : server_kind::mysql,
      {.tls = tls, .settings = {postgresql ? "listen_addresses = '*'" : "bind-address = 0.0.0.0"}});
  auto const url = std::regex_replace(server.address(), std::regex("127\\.0\\.0\\.1"), address) +
                   (tls ? " sslmode=require" : "");
  for (auto const& f : doctor(source_from_url(url)).examine())
    if (f.check == "tls" || f.check == "connection")
      std::cout << f.check << ": " << to_string(f.result) << ": " << f.why << "; " << f.remedy << '\n';
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}

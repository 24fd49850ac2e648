// What nothing can be faster than: a round trip, a flush. Each is a "lock" whose take() does it once.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

#include "children.hpp"
#include "systems/libmariadb.hpp"
#include "systems/libpq.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

[[noreturn]] void fail_by_errno(char const* what) {
  throw std::system_error(errno, std::system_category(), what);
}

/// Writes a page and waits until it is on the disk: behind what is there, or in the place of what is there.
class flush_client : public client {
 public:
  flush_client(std::string const& folder, bool append)
      : file_(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)), append_(append) {
    if (file_.get() < 0) fail_by_errno("open");
  }
  bool take(std::string const&, std::stop_token const&) override {
    std::array<char, 4096> const page{'x'};
    if (::pwrite(file_.get(), page.data(), page.size(), append_ ? end_ : 0) < 0) fail_by_errno("pwrite");
    end_ += static_cast<off_t>(page.size());
    if (::fdatasync(file_.get()) != 0) fail_by_errno("fdatasync");
    return true;
  }
  void give_back() override {}

 private:
  descriptor file_;
  bool append_;
  off_t end_ = 0;
};

/// A byte to another thread over loopback, and back.
class loopback_client : public client {
 public:
  loopback_client() {
    descriptor const listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);  // NOLINT: as sockets are addressed
    mine_ = descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), address, size) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), address, &size) != 0 || ::connect(mine_.get(), address, size) != 0)
      fail_by_errno("loopback");
    theirs_ = descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    int const on = 1;
    for (auto const fd : {mine_.get(), theirs_.get()})
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    echo_ = std::jthread([fd = theirs_.get()] {
      for (char byte = 0; ::read(fd, &byte, 1) == 1;)
        if (::write(fd, &byte, 1) != 1) return;
    });
  }
  ~loopback_client() override { ::shutdown(mine_.get(), SHUT_RDWR); }
  bool take(std::string const&, std::stop_token const&) override {
    char byte = 'x';
    if (::write(mine_.get(), &byte, 1) != 1 || ::read(mine_.get(), &byte, 1) != 1) fail_by_errno("loopback");
    return true;
  }
  void give_back() override {}

 private:
  descriptor mine_;
  descriptor theirs_;
  std::jthread echo_;
};

/// Two statements that ask for nothing: what any lock of two round trips costs at least.
class two_selects_client : public client {
 public:
  explicit two_selects_client(std::string const& address) : connection_(address) {
    connection_.prepare("no", "SELECT 1");
  }
  bool take(std::string const&, std::stop_token const&) override {
    connection_.execute("no", {});
    return true;
  }
  void give_back() override { connection_.execute("no", {}); }

 private:
  pg_connection connection_;
};

class two_dos_client : public client {
 public:
  explicit two_dos_client(std::string const& address) : connection_(address), no_(connection_, "DO 0") {}
  bool take(std::string const&, std::stop_token const&) override {
    no_.execute({});
    return true;
  }
  void give_back() override { no_.execute({}); }

 private:
  my_connection connection_;
  my_statement no_;
};

/// A session that is only there to make clients.
class floor_session : public session {
 public:
  explicit floor_session(std::function<std::unique_ptr<client>()> make) : make_(std::move(make)) {}
  std::unique_ptr<client> new_client() override { return make_(); }

 private:
  std::function<std::unique_ptr<client>()> make_;
};

template <class Client, class... More>
opener floor_of(More... more) {
  return [more...](std::string const& address) {
    return std::make_unique<floor_session>(
        [address, more...] { return std::make_unique<Client>(address, more...); });
  };
}

}  // namespace

void add_floors(std::vector<system_entry>& all) {
  all.push_back({"floor-loopback", "a byte over loopback and back", "folder", [](std::string const&) {
                   return std::make_unique<floor_session>([] { return std::make_unique<loopback_client>(); });
                 }});
  all.push_back(
      {"floor-overwrite", "fdatasync of 4 KiB, overwritten", "folder", floor_of<flush_client>(false)});
  all.push_back({"floor-append", "fdatasync of 4 KiB, appended", "folder", floor_of<flush_client>(true)});
  all.push_back({"floor-postgresql", "two SELECT 1, libpq", "postgresql", floor_of<two_selects_client>()});
  all.push_back({"floor-mariadb", "two DO 0, libmariadb", "mariadb", floor_of<two_dos_client>()});
}

}  // namespace rowlock::bench

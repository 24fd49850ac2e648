// Hosts with several addresses, of which some are silent, and a resolver that does not answer, in namespaces
// of its own:
//   unshare --net --mount --propagation unchanged rowlock_names postgresql|mariadb|mysql
// Prints a line for each call, and how long it took; exit status 0 if all was as it should be.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <thread>

#include "backend/backend.hpp"
#include "outages/own_network.hpp"
#include "outages/relay.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

using addresses = std::vector<std::string>;

void check_system(bool good, char const* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

/// A file of the system's, replaced for this process and its children.
class replaced_file {
 public:
  replaced_file(scratch_folder const& folder, std::string const& path)
      : path_(path), ours_(folder.file(path.substr(path.rfind('/') + 1))) {
    write("");
    check_system(::mount(ours_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0, "mount");
  }
  ~replaced_file() { ::umount2(path_.c_str(), MNT_DETACH); }
  replaced_file(replaced_file const&) = delete;
  replaced_file& operator=(replaced_file const&) = delete;
  void write(std::string const& text) const { std::ofstream(ours_) << text; }

 private:
  std::string path_, ours_;
};

/// Which addresses names have. DNS, which is asked for all others, is silent.
class name_service {
 public:
  name_service() {
    // Nobody else sees it. (EINVAL: "/" is a chroot's, and nothing that could be said of it.)
    check_system(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 || errno == EINVAL,
                 "mount");
    hosts_ = std::make_unique<replaced_file>(folder_, "/etc/hosts");
    kinds_ = std::make_unique<replaced_file>(folder_, "/etc/nsswitch.conf");
    dns_ = std::make_unique<replaced_file>(folder_, "/etc/resolv.conf");
    set("localhost", {"127.0.0.1"});
    kinds_->write("passwd: files\ngroup: files\nhosts: files dns\n");
    dns_->write("nameserver 127.0.0.53\noptions timeout:30 attempts:2\n");
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(53);
    ::inet_pton(AF_INET, "127.0.0.53", &at.sin_addr);
    server_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check_system(::bind(server_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0, "port 53");
  }
  ~name_service() { ::close(server_); }
  name_service(name_service const&) = delete;
  name_service& operator=(name_service const&) = delete;
  void set(std::string const& name, addresses const& all) {
    names_[name] = all;
    std::string text;
    for (auto const& [known, its] : names_)
      for (auto const& address : its) text += fmt::format("{} {}\n", address, known);
    hosts_->write(text);
  }

 private:
  scratch_folder folder_;
  std::unique_ptr<replaced_file> hosts_, kinds_, dns_;
  std::map<std::string, addresses> names_;
  int server_ = -1;
};

/// An address at which packets to a port are dropped: its line of connections that wait for being accepted is
/// full.
class silent_address {
 public:
  silent_address(std::string const& address, int port) {
    sockaddr_in four{};
    sockaddr_in6 six{};
    four.sin_family = AF_INET;
    six.sin6_family = AF_INET6;
    four.sin_port = six.sin6_port = htons(static_cast<std::uint16_t>(port));
    bool const is_four = ::inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1;
    check_system(is_four || ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1, "address");
    auto const* at =
        is_four ? reinterpret_cast<sockaddr const*>(&four) : reinterpret_cast<sockaddr const*>(&six);
    socklen_t const size = is_four ? sizeof four : sizeof six;
    int const listener = add(is_four ? AF_INET : AF_INET6);
    check_system(::bind(listener, at, size) == 0 && ::listen(listener, 0) == 0, "listen");
    for (int i = 0; i < 4; ++i) (void)::connect(add(is_four ? AF_INET : AF_INET6), at, size);
  }
  ~silent_address() {
    for (int const fd : sockets_) ::close(fd);
  }
  silent_address(silent_address const&) = delete;
  silent_address& operator=(silent_address const&) = delete;

 private:
  int add(int family) {
    sockets_.push_back(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return sockets_.back();
  }
  std::vector<int> sockets_;
};

std::string replaced(std::string text, std::string const& what, std::string const& by) {
  auto const at = text.find(what);
  if (at == text.npos) throw std::runtime_error("no " + what + " in " + text);
  return text.replace(at, what.size(), by);
}

/// @return what came of it: "done", or an error's name
std::string result_of(std::function<void()> const& call) {
  try {
    call();
    return "done";
  } catch (error const& e) {
    return e.code().message();
  }
}

void report_call(std::string const& role, std::vector<std::string> const& expected,
                 std::function<void()> const& call) {
  auto const start = clock_type::now();
  auto const came = result_of(call);
  report(role, start, came, std::find(expected.begin(), expected.end(), came) != expected.end());
}

std::string const done = "done";
std::string const unreachable = make_error_code(errc::unreachable).message();

class play {
 public:
  explicit play(server_kind kind)
      : kind_(kind),
        server_(kind, {.tls = kind != server_kind::mysql}),
        way_(port_of(server_.address()), live) {
    for (int i = 2; i < 22; ++i)
      silent_.push_back(std::make_unique<silent_address>(fmt::format("127.0.0.{}", i), way_.port()));
    silent_.push_back(std::make_unique<silent_address>("::1", way_.port()));
    migrator(source_from_url(server_.address())).up();
  }

  void lists() {
    addresses many;
    for (int i = 2; i < 21; ++i) many.push_back(fmt::format("127.0.0.{}", i));
    many.emplace_back("::1");
    calls("one, live", {live}, true);
    calls("two, silent", {"127.0.0.2", "127.0.0.3"}, false);
    calls("IPv6 silent, IPv4 live", {"::1", live}, true);
    calls("three silent, one live", {"127.0.0.2", "127.0.0.3", "127.0.0.4", live}, true);
    calls("refused, silent, live", {"127.0.0.33", "127.0.0.2", live}, true);
    calls("twenty, silent", many, false);
    calls_at("resolver silent", "nobody-answers.example", false, 3s);
  }

  /// The name leads elsewhere, twice: to the server by another way, and to nobody.
  void move() {
    relay other(port_of(server_.address()), "127.0.0.78", way_.port());
    names_.set("moves", {live});
    auto const start = clock_type::now();
    auto manager = std::make_unique<lock_manager>(url("moves"), options(3s));
    std::optional<acquisition> taken = manager->make_mutex("kept", {.ttl = 12s}).acquire();
    auto const& lock = *taken;
    names_.set("moves", {"::1", "127.0.0.78"});
    way_.refuse();
    auto const first = lock->trusted_until();
    bool const renewed = eventually([&] { return !lock->valid() || lock->trusted_until() > first; });
    report("a name that moves: holder of a lease of 12 s", start, lock->valid() ? "renewed" : "lost",
           renewed && lock->valid());
    names_.set("moves", {"127.0.0.2", "127.0.0.3"});
    other.refuse();
    auto const cut = clock_type::now();
    bool const told = eventually([&] { return lock->loss().has_value(); });
    report("a name that leads to nobody: holder of a lease of 12 s", cut,
           told ? to_string(*lock->loss()) : "not told", told);
    auto const ends = clock_type::now();
    taken.reset();
    manager.reset();
    report("a name that leads to nobody: end of the lock_manager", ends, done, true);
    way_.mend();
  }

  // Nobody can end a question to the resolver: more of them must not cost more threads, or keep others
  // waiting.
  void questions() {
    auto const ask = [&](std::string const& host) {
      return result_of([&] { (void)lock_manager(url(host), options(200ms)).list(); });
    };
    auto const threads = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    };
    (void)ask("nobody-answers.example");
    auto const before = threads();
    auto const start = clock_type::now();
    for (int i = 0; i < 10; ++i) (void)ask("nobody-answers.example");
    // A thread that was joined is in the list a little longer.
    bool const same = eventually([&] { return threads() <= before; });
    report("ten calls with a name that is looked up already: threads", start,
           std::to_string(threads() - before), same);
    names_.set("known", {live});
    for (int i = 0; i < 10; ++i) (void)ask(fmt::format("nobody-answers{}.example", i));
    report_call("ten more names that nobody answers for, then one that is known", {done},
                [&] { (void)lock_manager(url("known"), options(20s)).list(); });
  }

  // While a question is under way, in another thread that a child does not have, and that nobody can end.
  void children() {
    names_.set("here", {live});
    (void)result_of([&] { (void)lock_manager(url("nobody-answers.example"), options(200ms)).list(); });
    auto const start = clock_type::now();
    pid_t const child = ::fork();
    if (child == 0) {
      auto const asked =
          result_of([&] { (void)lock_manager(url("nobody-answers.example"), options(200ms)).list(); });
      auto const listed = result_of([&] { (void)lock_manager(url("here"), options(20s)).list(); });
      std::exit(asked == unreachable && listed == done ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    report("a child of fork(), until its exit()", start, std::to_string(status), status == 0);
  }

  // The server's certificate says: localhost, 127.0.0.1.
  void certificates() {
    if (kind_ == server_kind::mysql) return;  // its own says no name at all
    bool const libpq = kind_ == server_kind::postgresql;
    auto const soon = [] { return boot_clock::now() + 30s; };
    auto const asked =
        source_from_url(server_.address())
            .implementation()
            ->connect(soon())
            ->execute({"file", libpq ? "SELECT setting FROM pg_settings WHERE name = 'ssl_cert_file'"
                                     : "SELECT @@ssl_cert"},
                      {}, soon());
    auto const file = backend::as_text(asked.rows.at(0).at(0));
    auto const verified = [&](std::string const& host, bool direct) {
      auto const at = direct ? replaced(server_.address(), "127.0.0.1", host) : url(host);
      return at + (libpq ? " sslmode=verify-full sslrootcert=" : "?ssl-mode=verify&ssl-ca=") + file;
    };
    names_.set("localhost", {"127.0.0.2", live});
    names_.set("stranger", {"127.0.0.1"});
    report_call("the certificate says the name, not the address", {done},
                [&] { (void)lock_manager(verified("localhost", false), options(20s)).list(); });
    report_call("the certificate says the address, not the name", {unreachable},
                [&] { (void)lock_manager(verified("stranger", true), options(20s)).list(); });
  }

 private:
  static constexpr char const* live = "127.0.0.77";  // behind those that are silent, for getaddrinfo()

  static manager_options options(std::chrono::milliseconds reply) {
    manager_options o;
    o.reply_timeout = reply;
    o.release_timeout = reply;
    return o;
  }
  std::string url(std::string const& host) const {
    return way_.through(replaced(server_.address(), "127.0.0.1", host));
  }
  void calls(std::string const& which, addresses const& all, bool reachable) {
    // A share that is enough for a log-in on a busy machine, and ends before libpq's own patience (5 s).
    auto const shares = all.size() == 1 ? 3 : static_cast<int>(all.size());
    std::chrono::seconds const reply = reachable ? 2s * shares : 3s;
    auto const name = fmt::format("list{}", ++lists_);
    names_.set(name, all);
    calls_at(which, name, reachable, reply);
  }
  void calls_at(std::string const& which, std::string const& host, bool reachable,
                std::chrono::milliseconds reply) {
    auto const o = options(reply);
    std::vector<std::string> const expected{reachable ? done : unreachable};
    report_call(which + ": try_acquire", expected, [&] {
      lock_manager m(url(host), o);
      (void)m.make_mutex("x").try_acquire();
    });
    // Whether that is enough for the second address depends.
    report_call(which + ": try_acquire_for 200 ms", {done, unreachable}, [&] {
      lock_manager m(url(host), o);
      (void)m.make_mutex("x").try_acquire_for(200ms);
    });
    report_call(which + ": list", expected, [&] { (void)lock_manager(url(host), o).list(); });
    report_call(which + ": doctor", {done}, [&] {
      doctor_options d;
      d.reply_timeout = o.reply_timeout;
      auto const found = doctor(source_from_url(url(host)), d).examine();
      if ((found.at(0).result == verdict::ok) != reachable) throw error(errc::failed, found.at(0).why);
    });
  }

  server_kind kind_;
  name_service names_;
  database_server server_;
  relay way_;
  std::vector<std::unique_ptr<silent_address>> silent_;
  int lists_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  std::string const kind = argc == 2 ? argv[1] : "";
  if (kind != "postgresql" && kind != "mariadb" && kind != "mysql") {
    std::cerr << "usage: unshare --net --mount rowlock_names postgresql|mariadb|mysql\n";
    return 64;
  }
  set_loopback(true);
  play p(kind == "postgresql" ? server_kind::postgresql
         : kind == "mariadb"  ? server_kind::mariadb
                              : server_kind::mysql);
  p.lists();
  p.move();
  p.certificates();
  p.questions();
  p.children();
  return all_good ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}

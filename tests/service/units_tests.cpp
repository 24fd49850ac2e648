// Files for cron and systemd, read by these, and what a service manager hears.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "cli/place.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

/// A socket that others send datagrams to, by a path or, with an "@", by an abstract name.
class mailbox {
 public:
  explicit mailbox(std::string const& name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    REQUIRE(name.size() < sizeof at.sun_path);
    std::copy(name.begin(), name.end(), at.sun_path);
    if (name.front() == '@') at.sun_path[0] = '\0';
    auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr const*>(&at), size) == 0);
  }
  ~mailbox() { ::close(fd_); }
  mailbox(mailbox const&) = delete;
  mailbox& operator=(mailbox const&) = delete;

  /// The next one; empty if none comes for long.
  std::string next(int patience_ms = 60'000) {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, patience_ms) != 1) return "";
    std::string text(4096, '\0');
    auto const size = ::recv(fd_, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
  }

 private:
  int fd_;
};

/// The user that Debian's package makes.
std::string packaged_user() {
  auto const script = read_file(source_path("tools/debian/postinst"));
  std::smatch found;
  REQUIRE(std::regex_search(script, found, std::regex("useradd .* ([a-z]+)\n")));
  return found.str(1);
}

/// What cron says when it starts with this file, on a system that has these users beside root, until it runs
/// what is to be run at boot.
std::string cron_says(std::string const& file, std::string const& users) {
  scratch_folder const folder;
  for (auto const* name : {"cron.d", "spool/crontabs", "run", "dev"})
    fs::create_directories(folder.file(name));
  std::ofstream(folder.file("cron.d/rowlock-reap")) << file;
  fs::permissions(folder.file("cron.d/rowlock-reap"), fs::perms(0644));
  std::ofstream(folder.file("passwd")) << "root:x:0:0:root:/root:/bin/sh\n" << users;
  for (auto const* name : {"dev/log", "dev/null"}) std::ofstream{folder.file(name)};
  mailbox log(folder.file("log"));
  program const cron(
      {"unshare", "-rm", "sh", "-c",
       "cd \"$0\" && mount --bind /dev/null dev/null && mount --bind log dev/log && mount --rbind dev /dev "
       "&& "
       "mount --bind cron.d /etc/cron.d && mount --bind spool /var/spool/cron && "
       "mount --bind run /run && mount --bind passwd /etc/passwd && exec /usr/sbin/cron -f -L 1",
       folder.path().string()});
  std::string all;
  while (all.find("@reboot") == all.npos) {
    auto const line = log.next();
    if (line.empty()) break;
    all += line + '\n';
  }
  return all;
}

}  // namespace

TEST_CASE("C82: cron takes the file as it is shipped: its user is the one that the package makes") {
  auto const shipped = read_file(source_path("tools/cron/rowlock-reap"));
  auto const said = cron_says(shipped, packaged_user() + ":x:0:0::/nonexistent:/bin/sh\n");
  CHECK(said.find("@reboot") != said.npos);
  CHECK_MESSAGE(said.find("ignored") == said.npos, said);
  CHECK(cron_says(shipped, "").find("bad username") != std::string::npos);  // cron would tell
}

TEST_CASE("C83: rowlock-lead@.service is what systemd can read, and ends the program by rowlock alone") {
  scratch_folder const folder;
  auto const unit = read_file(source_path("tools/systemd/rowlock-lead@.service"));
  CHECK(unit.find("\nKillMode=mixed\n") != unit.npos);
  CHECK(unit.find("\nType=notify\n") != unit.npos);
  auto const file = folder.file("rowlock-lead@x.service");
  std::ofstream(file) << std::regex_replace(unit, std::regex("ExecStart=rowlock"),
                                            "ExecStart=" + rowlock_program);
  auto const read = run({"systemd-analyze", "verify", "--man=no", file});
  CHECK(read.status == 0);
  CHECK_MESSAGE(read.err.find("rowlock-lead@x") == read.err.npos, read.err);
}

TEST_CASE("C83: lead <sqlite>: a service manager hears that it is ready, and who leads") {
  on_sqlite const p;
  scratch_folder const folder;
  int round = 0;
  for (auto const& where : {folder.file("notify"), fmt::format("@rowlock-test-{}", ::getpid())}) {
    auto const name = fmt::format("scheduler{}", ++round);
    mailbox leads(where);
    program leader(p.command({"lead", name, "--", "sh", "-c", "echo ready; exec sleep 100"}),
                   p.variables({{"NOTIFY_SOCKET", where}}));
    CHECK(leads.next() == fmt::format("READY=1\nSTATUS=campaigns for '{}'", name));
    auto const led = leads.next();
    CHECK_MESSAGE(led.starts_with(fmt::format("STATUS=leads '{}', token ", name)), led);
    CHECK(leader.prints("ready"));

    auto const elsewhere = where + "2";
    mailbox waits(elsewhere);
    program second(p.command({"lead", name, "--", "sleep", "100"}),
                   p.variables({{"NOTIFY_SOCKET", elsewhere}}));
    CHECK(waits.next().starts_with("READY=1\n"));
    leader.signal(SIGTERM);
    CHECK(leader.wait() == 143);
    CHECK(waits.next().starts_with("STATUS=leads "));
    second.signal(SIGTERM);
    CHECK(second.wait() == 143);
  }
}

TEST_CASE("C83: lead <sqlite>: a service that is stopped by SIGTERM to rowlock passes it on once") {
  on_sqlite const p;
  program leader(p.command({"lead", "once", "--grace", "3s", "--", "sh", "-c",
                            "n=0; trap 'n=$((n + 1))' TERM; echo ready; until [ $n -gt 0 ]; do sleep 0.1; "
                            "done; sleep 1; echo $n"}),
                 p.variables());
  REQUIRE(leader.prints("ready"));
  leader.signal(SIGTERM);
  CHECK(leader.wait() == 0);
  CHECK(leader.out() == "ready\n1\n");
}

}  // namespace rowlock::test

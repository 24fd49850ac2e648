#include "nemesis.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "by_hand.hpp"
#include "client.hpp"
#include "deeds.hpp"
#include "printable.hpp"
#include "signals.hpp"
#include "sockets.hpp"
#include "worker.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

/// How long a client may take to end by itself: releases wait for a server, and that for a dead one's lock.
constexpr auto patience = 60s;
/// And an operator, where nothing is broken.
constexpr auto operators_patience = 20s;

/// All that is left of a disk, as long as this exists. It has no name, which somebody else could have put
/// there before; and the kernel takes it back however this process ends.
class filler {
 public:
  explicit filler(std::filesystem::path const& folder) {
    auto file = (folder / "filled-by-rowlock-torture-XXXXXX").string();
    fd_ = ::mkostemp(file.data(), O_CLOEXEC);
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), file);
    ::unlink(file.c_str());
    std::vector<char> const some(1 << 20, 'x');
    // What the last write leaves is filled with less and less.
    for (std::size_t n = some.size(); n > 0;)
      if (::write(fd_, some.data(), n) <= 0) n /= 2;
  }
  filler(filler const&) = delete;
  filler& operator=(filler const&) = delete;
  ~filler() { ::close(fd_); }

 private:
  int fd_ = -1;
};

/// Faults begin when somebody has had a lock: on a busy machine it takes a while until all clients are there.
/// Where nobody gets one they begin after so long.
constexpr auto longest_start = 20s;
/// After the last fault: so much time at least all goes well.
constexpr auto rest = 1s;

bool somebody_had_a_lock(std::filesystem::path const& histories) {
  auto const all = read_history(histories);
  return std::any_of(all.begin(), all.end(), [](record const& r) { return r.what == happening::gives_back; });
}

/// Says how far a clock is from the true time.
void move_clock(std::string const& file, std::int64_t seconds) {
  int const fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), file);
  auto const n = ::pwrite(fd, &seconds, sizeof seconds, 0);
  ::close(fd);
  if (n != sizeof seconds) throw std::system_error(errno, std::generic_category(), file);
}

}  // namespace

std::vector<nemesis_name> const& nemeses() {
  constexpr auto always = [](options const&) { return true; };
  constexpr auto server = [](options const& o) { return !o.server.empty() && o.nodes.empty(); };
  constexpr auto node = [](options const& o) { return !o.server.empty() && !o.nodes.empty(); };
  constexpr auto wire = [](options const& o) { return o.through_wire; };
  constexpr auto sessions = [](options const& o) {
    return !o.db.starts_with("sqlite:") && can_be_reached_by_sql(o.db);
  };
  constexpr auto client_role = [](options const& o) { return o.client_role; };
  // SQLite's clock is the clients'.
  constexpr auto clock = [](options const& o) { return !o.clock.empty() && !o.db.starts_with("sqlite:"); };
  // Where a row is deleted by hand nothing but the clock is left to keep tokens from falling.
  constexpr auto server_clock = [](options const& o) {
    return !o.server_clock.empty() && !o.db.starts_with("sqlite:") && o.what != workload::force;
  };
  constexpr auto small_disk = [](options const& o) { return !o.small_disk.empty() && o.nodes.empty(); };
  constexpr auto by_force = [](options const& o) { return o.what == workload::force; };
  static std::vector<nemesis_name> const all{
      {"kill", "SIGKILL for a client, and another begins in its place", always, ""},
      {"stop", "SIGSTOP for a client, for up to twice the ttl", always, ""},
      {"server-kill", "kill -9 for the server and all its processes, and a start with recovery", server,
       "--server, without --nodes"},
      {"server-stop", "SIGSTOP for the server, for up to twice the ttl", server, "--server, without --nodes"},
      {"node-kill", "kill -9 for one of the servers of a cluster, which joins it again up to four ttls later",
       node, "--nodes and --server"},
      {"node-stop", "SIGSTOP for one of them, for up to four times the ttl", node, "--nodes and --server"},
      {"node-cut", "one of them and the others do not hear each other, for up to four times the ttl", node,
       "--nodes and --server"},
      {"lost-answers",
       "requests are done, their answers are lost, and then the connections, for up to half the ttl", wire,
       "--wire"},
      {"late-answers", "answers are kept back for up to twice the ttl, and then arrive", wire, "--wire"},
      {"cut", "whatever either side says is lost for up to twice the ttl, and then the connections", wire,
       "--wire"},
      {"half-open",
       "the clients' connections are reset, and the server hears of it up to twice the ttl later", wire,
       "--wire"},
      {"sessions", "an operator ends some of the clients' sessions in the server", sessions,
       "a server, a build with SOCI, and no URL of MySQL's with a ?"},
      {"rights",
       "an operator takes the clients' right to write locks, and gives it back up to twice the ttl later",
       client_role, "--client-role"},
      {"operator",
       "several reapers at once delete what nobody uses, until they are killed, or the tables are taken to "
       "an "
       "older version and back; nobody may notice any of it",
       always, ""},
      {"full-disk", "the disk is full, for up to twice the ttl", small_disk, "--small-disk, without --nodes"},
      {"force", "an operator takes a lock away: as `rowlock release --now`, or by DELETE", by_force,
       "--workload force"},
      {"clock", "the wall clock of the clients jumps by up to an hour, back or forth; nobody may notice",
       clock, "--clock, and a server"},
      {"server-clock",
       "so does the server's. With --takeover observed nobody may notice; else locks are lost, and two may "
       "have "
       "one: that is counted",
       server_clock, "--server-clock, a server, and another workload than force"},
  };
  return all;
}

crew::crew(options const& o, ledger& l, std::filesystem::path const& folder, wire* between,
           std::string direct)
    : options_(o),
      ledger_(l),
      wire_(between),
      direct_(std::move(direct)),
      folder_(folder),
      history_(folder / "nemesis.history"),
      random_(o.seed) {
  seats_.resize(static_cast<std::size_t>(o.processes));
  for (std::uint32_t i = 0; i < seats_.size(); ++i) start(i);
}

crew::~crew() {
  for (auto& s : seats_) {
    if (s.line >= 0) ::close(s.line);
    if (s.pid <= 0) continue;
    ::kill(s.pid, SIGKILL);
    ::waitpid(s.pid, nullptr, 0);
  }
}

void crew::start(std::uint32_t which) {
  auto& s = seats_[which];
  int ends[2];
  // A server that is started again must not have them: who holds an end keeps the client from hearing the
  // end.
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  auto const parent = ::getpid();
  auto const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    be_child(parent, fmt::format("client {}", which));
    ::close(ends[1]);
    auto its = options_;
    if (!its.nodes.empty()) its.db = its.nodes[which % its.nodes.size()];
    be_client(its, ledger_, folder_, which, s.life, ends[0]);
  }
  ::close(ends[0]);
  s.pid = pid;
  s.line = ends[1];
}

void crew::be_child(pid_t parent, std::string const& who) const {
  be_child_of(parent, who);
  for (auto const& s : seats_)
    if (s.line >= 0) ::close(s.line);
}

int crew::errand(std::chrono::milliseconds at_most, std::function<void()> const& does, bool ends) {
  auto const parent = ::getpid();
  auto const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    be_child(parent, "an operator");
    int status = 0;
    try {
      does();
    } catch (std::exception const& e) {
      on_stderr(fmt::format("an operator: {}\n", printable(e.what())));
      status = 1;
    }
    ::_exit(status);
  }
  auto const end = boot_clock::now() + at_most;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (boot_clock::now() > end || (!ends && signal_came())) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      break;
    }
    std::this_thread::sleep_for(1ms);  // waitpid() has no timeout
  }
  return status;
}

void crew::operator_does(std::function<void()> const& what) {
  failed_work_ += errand(operators_patience, what) != 0;
}

void crew::reapers(std::string const& where, std::chrono::milliseconds length) {
  auto const status = errand(
      length, [&] { reap(options_.connect(where)); }, false);
  failed_work_ += !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
}

std::vector<pid_t> crew::connected() const {
  if (wire_ != nullptr) return {wire_->process()};
  std::vector<pid_t> all;
  for (auto const& s : seats_) all.push_back(s.pid);
  return all;
}

std::string const& crew::direct() {
  auto const& nodes = options_.nodes;
  return nodes.empty() ? direct_ : nodes[random_() % nodes.size()];
}

void crew::kill(std::uint32_t which) {
  auto& s = seats_[which];
  ::kill(s.pid, SIGKILL);
  ::waitpid(s.pid, nullptr, 0);
  record r;
  r.what = happening::died;
  r.process = which;
  r.life = s.life++;
  history_.write(r);
  ::close(std::exchange(s.line, -1));
  start(which);
}

void crew::fault(std::string const& name, std::uint32_t whom, std::function<void()> const& happens) {
  record r;
  r.what = happening::fault;
  r.process = whom;
  r.set_text(name);
  history_.write(r);
  happens();
  r.what = happening::mended;
  history_.write(r);
}

void crew::deed(std::string const& name, std::function<void()> const& happens) {
  record r;
  r.what = happening::deed;
  r.process = everybody;
  r.set_text(name);
  history_.write(r);
  happens();
}

void crew::stop(std::uint32_t which, std::chrono::milliseconds length) {
  ::kill(seats_[which].pid, SIGSTOP);
  pass(length);  // the fault
  ::kill(seats_[which].pid, SIGCONT);
}

void crew::fill_disk(std::chrono::milliseconds length) const {
  {
    filler const all(options_.small_disk);
    pass(length);  // the fault
  }
  if (options_.server.empty()) return;
  // It may have ended by itself.
  (void)server_obeys("kill 2>/dev/null");
  order_server("restart");
}

void crew::take_rights(std::chrono::milliseconds length) {
  auto const let = [&](bool may) {
    // Where they can't be given back, that nobody gets a lock is no fault of the locks'.
    if (errand(operators_patience, [&] { let_clients_write(direct_, may); }) != 0)
      throw std::runtime_error("the clients' rights could not be changed");
  };
  let(false);
  pass(length);  // the fault
  let(true);
}

bool crew::server_obeys(std::string const& verb) const {
  // What moves this program's clock is not for the server.
  auto const command = (options_.clock.empty() ? "" : "env -u LD_PRELOAD ") + options_.server + " " + verb;
  return run_command(command) == 0;
}

void crew::order_server(std::string const& verb) const {
  if (!server_obeys(verb)) throw std::runtime_error("failed: " + options_.server + " " + verb);
}

void crew::server(std::string const& breaks, std::string const& mends,
                  std::chrono::milliseconds length) const {
  order_server(breaks);
  pass(length);  // the fault
  order_server(mends);
}

void crew::node(std::string const& breaks, std::chrono::milliseconds longest) {
  auto const one = " " + std::to_string(1 + random_() % options_.nodes.size());
  order_server(breaks + one);
  pass(std::min(between(options_.ttl, 4 * options_.ttl), longest));  // the fault
  if (breaks == "pause") {
    order_server("resume" + one);
    // For a while it goes by what it knew before.
    pass(between(0ms, options_.ttl));  // the fault, too
  }
  order_server("mend");
}

std::chrono::milliseconds crew::between(std::chrono::milliseconds from, std::chrono::milliseconds to) {
  return from + std::chrono::milliseconds(random_() % static_cast<unsigned>((to - from).count() + 1));
}

void crew::apply(std::string const& nemesis, std::chrono::milliseconds longest) {
  auto const which = static_cast<std::uint32_t>(random_() % seats_.size());
  auto const length = std::min(between(options_.ttl / 4, 2 * options_.ttl), longest);
  constexpr int hour = 3600;
  auto const jump = static_cast<std::int64_t>(random_() % (2 * hour + 1)) - hour;
  if (nemesis == "kill") kill(which);
  if (nemesis == "stop") fault(nemesis, which, [&] { stop(which, length); });
  if (nemesis == "server-kill") {
    another_incarnation_ = true;
    fault(nemesis, everybody, [&] { server("kill", "restart", 0ms); });
  }
  if (nemesis == "lost-answers") fault(nemesis, everybody, [&] { wire_->lose_answers(length / 4); });
  if (nemesis == "late-answers") fault(nemesis, everybody, [&] { wire_->delay_answers(length); });
  if (nemesis == "cut") fault(nemesis, everybody, [&] { wire_->lose_everything(length); });
  if (nemesis == "half-open") fault(nemesis, everybody, [&] { wire_->leave_half_open(length); });
  if (nemesis == "sessions") {
    std::mt19937 chance(random_());
    auto const& where = direct();
    auto const ends = [&] { end_sessions(where, ports_of(connected()), chance); };
    fault(nemesis, everybody, [&] { operator_does(ends); });
  }
  if (nemesis == "rights") fault(nemesis, everybody, [&] { take_rights(length); });
  if (nemesis == "operator" && (random_() % 4 != 0 || !options_.migrations)) {
    auto const& where = direct();
    deed("reapers", [&] { reapers(where, length / 2); });
  } else if (nemesis == "operator") {
    // Members of a quorum need all of the tables.
    bool const down = options_.what != workload::quorum;
    auto const& where = direct();
    another_incarnation_ = another_incarnation_ || down;
    deed("migrations", [&] {
      operator_does([&] {
        migrate(options_.connect(where), down);
        if (options_.client_role) let_clients_lock(where);
      });
    });
  }
  if (nemesis == "force") {
    auto const name = name_of(random_() % static_cast<unsigned>(options_.names));
    bool const by_hand = random_() % 2 == 0 && !another_incarnation_;
    auto const& where = direct();
    fault(nemesis, everybody, [&] { operator_does([&] { take_away(where, name, by_hand); }); });
  }
  if (nemesis == "full-disk") fault(nemesis, everybody, [&] { fill_disk(length); });
  if (nemesis == "clock") deed(nemesis, [&] { move_clock(options_.clock, jump); });
  if (nemesis == "server-clock") {
    auto const jumps = [&] { move_clock(options_.server_clock, jump); };
    if (options_.how_over == takeover::observed)
      deed(nemesis, jumps);
    else
      fault(nemesis, everybody, jumps);
  }
  if (nemesis == "server-stop") fault(nemesis, everybody, [&] { server("pause", "resume", length); });
  if (nemesis == "node-kill") fault(nemesis, everybody, [&] { node("kill", longest); });
  if (nemesis == "node-stop") fault(nemesis, everybody, [&] { node("pause", longest); });
  if (nemesis == "node-cut") fault(nemesis, everybody, [&] { node("cut", longest); });
}

void crew::look_for_ended() {
  for (std::uint32_t i = 0; i < seats_.size(); ++i) {
    int status = 0;
    if (::waitpid(seats_[i].pid, &status, WNOHANG) != seats_[i].pid) continue;
    seats_[i].pid = 0;
    throw std::runtime_error(fmt::format("client {} ended by itself, {}", i, how_it_ended(status)));
  }
}

void crew::torture(std::function<void(std::string const&)> const& tell) {
  auto const by = boot_clock::now() + longest_start;
  while (boot_clock::now() < by && !somebody_had_a_lock(folder_)) {
    look_for_ended();
    look_for_signal();
    pass(20ms);  // a file tells nobody that it has grown
  }
  auto const end = boot_clock::now() + options_.duration;
  do {
    pass(between(options_.ttl / 20, options_.ttl / 2));  // in which all goes well
    look_for_signal();
    look_for_ended();
    if (options_.nemeses.empty()) continue;
    auto const& chosen = options_.nemeses[random_() % options_.nemeses.size()];
    tell(chosen);
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(end - boot_clock::now());
    apply(chosen, std::max(left, options_.ttl / 4));
    look_for_signal();
    look_for_ended();
  } while (boot_clock::now() < end);
  pass(rest);
  look_for_signal();
  look_for_ended();
}

void crew::finish() {
  for (auto& s : seats_) ::close(std::exchange(s.line, -1));
  auto const end = boot_clock::now() + patience;
  for (std::uint32_t i = 0; i < seats_.size(); ++i) {
    int status = 0;
    while (::waitpid(seats_[i].pid, &status, WNOHANG) == 0) {
      if (boot_clock::now() > end) throw std::runtime_error(fmt::format("client {} does not end", i));
      look_for_signal();
      pass(10ms);  // waitpid() has no timeout
    }
    seats_[i].pid = 0;
    if (status != 0) throw std::runtime_error(fmt::format("client {} ended {}", i, how_it_ended(status)));
  }
}

}  // namespace rowlock::torture

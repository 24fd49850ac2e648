#include "process/guard.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <system_error>

#include "process/limits.hpp"

namespace rowlock::tool {
namespace {

/// How long processes that do not die of SIGKILL are waited for if no guardian is left to do it.
constexpr std::chrono::seconds patience_without_guardian{2};
/// How long a guardian that has nothing more to do may take to end; the same for one to report that has
/// killed, beside what it waits itself.
constexpr std::chrono::seconds patience_with_guardian{3};

[[noreturn]] void be_guardian(guard_plan plan, signal_setup const& signals, descriptor rowlock) noexcept {
  int status = 0;
  try {
    guardian(std::move(plan), signals, std::move(rowlock)).run();
  } catch (std::exception const&) {
    // rowlock sees the socket close, takes over the descendants and ends them; the command itself dies with
    // us.
    status = 70;
  }
  ::_exit(status);
}

/// SIGCHLD is blocked since signal_setup.
descriptor watch_children() {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  descriptor fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw std::system_error(errno, std::generic_category(), "signalfd");
  return fd;
}

template <std::size_t Size>
void put(std::array<char, Size>& to, std::string const& text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), Size - 1));
}

}  // namespace

bool outcome::exited_with(int status) const noexcept {
  return from == source::guardian && what.why == ending::by_itself && what.not_begun == 0 &&
         what.exec_error == 0 && WIFEXITED(what.wait_status) && WEXITSTATUS(what.wait_status) == status;
}

guard::guard(guard_plan plan, signal_setup const& signals)
    : slack_(plan.slack),
      grace_(plan.grace),
      child_changed_(watch_children()),
      trust_ends_(never.time_since_epoch().count()),
      end_by_(never.time_since_epoch().count()) {
  require_own_proc();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  guardian_ = descriptor(ends[0]);
  descriptor other_end(ends[1]);
  // Should the guardian be killed, its orphans come to us and not to init.
  why_no_orphans_ = adopt_orphans() ? 0 : errno;
  guardian_pid_ = ::fork();
  if (guardian_pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (guardian_pid_ == 0) {
    guardian_.reset();
    be_guardian(std::move(plan), signals, std::move(other_end));
  }
}

guard::~guard() {
  guardian_.reset();  // it sees that we are gone
  if (done_) return;
  if (!started_) {
    end_guardian();
    return;
  }
  // One that is stopped for good (a debugger, a freezer) ends nothing: then we do.
  if (!guardian_ends_within(grace_ + patience_with_guardian)) end_all(outcome::source::guardian_late);
}

/// Without that its end depends on whoever has stopped it. @return whether it has ended
bool guard::guardian_ends_within(boot_clock::duration time) noexcept {
  auto const until = boot_clock::now() + time;
  for (;;) {
    ::kill(guardian_pid_, SIGCONT);
    if (::waitpid(guardian_pid_, nullptr, WNOHANG) != 0) return true;
    if (boot_clock::now() >= until) return false;
    // SIGCHLD may have been taken before: look again soon.
    pollfd changed{child_changed_.get(), POLLIN, 0};
    ::poll(&changed, 1, 20);
    wake_guardian();
  }
}

/// It has no command: there was none, or it has reported that all is gone.
void guard::end_guardian() noexcept {
  done_ = true;
  if (guardian_ends_within(patience_with_guardian)) return;
  ::kill(guardian_pid_, SIGKILL);
  (void)guardian_ends_within(patience_with_guardian);  // not if it is frozen: then it dies when it thaws
}

void guard::send(order const& o) noexcept {
  // A socket that is full or closed means that the guardian is stopped or gone: wait() sees to both.
  ::send(guardian_.get(), &o, sizeof o, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void guard::start(std::string const& name, fencing_token token, std::string const& term,
                  boot_time_point trust_ends, std::string const& database) {
  order o;
  o.kind = order_kind::start;
  o.trust_ends = trust_ends.time_since_epoch().count();
  o.token = token.value;
  put(o.name, name);
  put(o.term, term);
  put(o.database, database);
  trust_ends_ = o.trust_ends;
  too_late_ = boot_clock::now() >= overdue();
  if (too_late_) return;
  started_ = true;
  set_timer();
  send(o);
}

/// A guardian that has not reported by then does nothing: half of the slack is left for doing it ourselves.
/// Where trust has no end, what the guardian needs after it was told to end the command.
boot_time_point guard::overdue() const noexcept {
  auto const time_of = [](std::int64_t ns) { return boot_time_point{boot_clock::duration{ns}}; };
  auto const trust = time_of(trust_ends_.load());
  auto const told = time_of(end_by_.load());
  return trust != never || told == never ? earlier(trust, slack_ / 2) : told + patience_with_guardian;
}

/// By several threads at once: whoever was held up between reading the time and setting it must not leave the
/// timer at an older one. A time that has passed would wake watch() for ever, a later one too late.
void guard::set_timer() noexcept {
  boot_time_point when;
  do {
    when = overdue();
    overdue_.set(when);
  } while (when != overdue());
}

void guard::renewed(boot_time_point trust_ends) noexcept {
  order o;
  o.kind = order_kind::renew;
  o.trust_ends = trust_ends.time_since_epoch().count();
  auto before = trust_ends_.load();
  while (before < o.trust_ends && !trust_ends_.compare_exchange_weak(before, o.trust_ends)) {
  }
  if (before >= o.trust_ends) return;
  set_timer();
  send(o);
}

void guard::end(boot_time_point kill_by) noexcept {
  order o;
  o.kind = order_kind::end;
  o.trust_ends = kill_by.time_since_epoch().count();
  end_by_ = o.trust_ends;
  set_timer();
  send(o);
}

outcome guard::wait(int signals) {
  auto o = watch(signals);
  pass_on(signals);  // one that came in at the last moment
  o.asked_to_end = asked_to_end_;
  return o;
}

outcome guard::watch(int signals) {
  if (too_late_) {
    outcome late;
    late.what.why = ending::trust_ends;
    late.what.not_begun = 1;
    return late;
  }
  for (;;) {
    std::array<pollfd, 4> fds{{{guardian_.get(), POLLIN, 0},
                               {signals, POLLIN, 0},
                               {child_changed_.get(), POLLIN, 0},
                               {overdue_.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    wake_guardian();
    outcome o;
    auto size = ::recv(guardian_.get(), &o.what, sizeof o.what, MSG_DONTWAIT);
    // It has ended and not read our latest orders, a renewal: the kernel tells that first, once, and then its
    // report.
    if (size < 0 && errno == ECONNRESET) size = ::recv(guardian_.get(), &o.what, sizeof o.what, MSG_DONTWAIT);
    if (size == sizeof o.what) {
      end_guardian();
      return o;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) return end_all(outcome::source::guardian_gone);
    pass_on(signals);
    if (boot_clock::now() >= overdue()) return end_all(outcome::source::guardian_late);
    if (fds.back().revents != 0) set_timer();  // it was at an older time, and stays readable until it is set
  }
}

/// What the terminal sent went to the whole foreground group, and what one of the command's own processes
/// sends us (kill 0) it could send to the command as well: passing these on would have the command see them
/// twice. The command's are those below the guardian: what else is below us was started by the shell that has
/// become rowlock (exec), or comes to us because we are a container's first process. But that the terminal is
/// gone (closed, a connection lost) the kernel tells the session's leader alone, with SIGHUP and SIGCONT: it
/// is for him to tell the others.
void guard::pass_on(int signals) {
  signalfd_siginfo info{};
  while (::read(signals, &info, sizeof info) == sizeof info) {
    auto const signal = static_cast<int>(info.ssi_signo);
    bool const hung_up = info.ssi_code == SI_KERNEL && signal == SIGHUP && ::getsid(0) == ::getpid();
    if (info.ssi_code != SI_KERNEL && info.ssi_pid != 0 &&
        is_descendant(static_cast<pid_t>(info.ssi_pid), guardian_pid_))
      continue;
    if (signal != SIGUSR1 && signal != SIGUSR2) asked_to_end_ = signal;
    if (info.ssi_code == SI_KERNEL && !hung_up) continue;
    pass_on_one(signal);
    if (hung_up) pass_on_one(SIGCONT);
  }
}

void guard::pass_on_one(int signal) noexcept {
  order o;
  o.kind = order_kind::signal;
  o.signal = static_cast<std::int32_t>(signal);
  send(o);
}

/// A guardian that is stopped ends nothing, and if we were killed then nobody would: it goes on at once. Only
/// stops are looked for, so that its end is left to waitpid().
void guard::wake_guardian() noexcept {
  signalfd_siginfo ignored{};
  while (::read(child_changed_.get(), &ignored, sizeof ignored) > 0) {
  }
  siginfo_t stopped{};
  if (::waitid(P_PID, static_cast<id_t>(guardian_pid_), &stopped, WSTOPPED | WNOHANG) == 0 &&
      stopped.si_pid == guardian_pid_)
    ::kill(guardian_pid_, SIGCONT);
}

outcome guard::end_all(outcome::source from) {
  outcome o;
  o.from = from;
  o.what.why = from == outcome::source::guardian_late ? ending::trust_ends : ending::by_itself;
  reaper children(guardian_pid_);
  o.what.left = kill_descendants(children, boot_clock::now() + patience_without_guardian);
  done_ = true;
  return o;
}

}  // namespace rowlock::tool

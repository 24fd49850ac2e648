#include "children.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

struct pipe_ends {
  descriptor read;
  descriptor write;
};

pipe_ends new_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::system_category(), "pipe");
  return {descriptor(ends[0]), descriptor(ends[1])};
}

/// Until the other end was closed.
void wait_for_end_of(int fd) {
  char byte = 0;
  while (::read(fd, &byte, 1) != 0)
    if (errno != EINTR) return;
}

}  // namespace

void descriptor::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void child_line::say_ready() const {
  if (::write(ready_, "r", 1) != 1) throw std::system_error(errno, std::system_category(), "write");
}

void child_line::wait_for_go() const { wait_for_end_of(go_); }

void child_line::wait_for_stop() const { wait_for_end_of(stop_); }

child_group::child_group(int count, std::function<void(int, child_line const&)> const& body)
    : troubles_(static_cast<std::size_t>(count)) {
  auto ready = new_pipe();
  auto go = new_pipe();
  auto stop = new_pipe();
  pid_t const parent = ::getpid();
  std::fflush(nullptr);  // or each child would write it, too
  for (int i = 0; i < count; ++i) {
    pid_t const pid = ::fork();
    if (pid < 0) {
      int const why = errno;
      reap(SIGKILL);
      throw std::system_error(why, std::system_category(), "fork");
    }
    if (pid > 0) {
      pids_.push_back(pid);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ready.read.close();
    go.write.close();
    stop.write.close();
    auto& mine = troubles_[static_cast<std::size_t>(i)];
    try {
      body(i, child_line(ready.write.get(), go.read.get(), stop.read.get()));
    } catch (std::exception const& e) {
      std::snprintf(mine.text, sizeof mine.text, "%s",
                    *e.what() != '\0' ? e.what() : "an error without a text");
    }
    // Nothing static is destroyed: that is the parent's.
    std::fflush(nullptr);
    ::_exit(mine.text[0] != '\0' ? 1 : 0);
  }
  ready_ = std::move(ready.read);
  go_ = std::move(go.write);
  stop_ = std::move(stop.write);
}

child_group::~child_group() { reap(SIGKILL); }

void child_group::check() const {
  for (std::size_t i = 0; i < troubles_.size(); ++i)
    if (troubles_[i].text[0] != '\0') throw peer_error(troubles_[i].text);
}

void child_group::reap(int signal) noexcept {
  for (auto const pid : pids_) {
    if (signal != 0) ::kill(pid, signal);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pids_.clear();
}

void child_group::await_ready(std::chrono::milliseconds timeout) {
  auto const end = std::chrono::steady_clock::now() + timeout;
  for (std::size_t ready = 0; ready < troubles_.size();) {
    auto const left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    check();
    if (left <= 0) throw peer_error("its clients were not ready in time");
    pollfd ask{ready_.get(), POLLIN, 0};
    // In slices: one that failed is no reason to wait for the others.
    if (::poll(&ask, 1, static_cast<int>(left < 100 ? left : 100)) <= 0) continue;
    std::array<char, 64> bytes{};
    auto const got = ::read(ready_.get(), bytes.data(), bytes.size());
    if (got == 0) {
      check();
      throw peer_error("a client ended before it was ready");
    }
    if (got > 0) ready += static_cast<std::size_t>(got);
  }
}

void child_group::await_end(std::chrono::milliseconds timeout) {
  auto const end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    auto const left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd ask{ready_.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&ask, 1, static_cast<int>(left)) == 0) {
      reap(SIGKILL);
      break;
    }
    std::array<char, 64> bytes{};
    if (::read(ready_.get(), bytes.data(), bytes.size()) == 0) {
      reap(0);
      break;
    }
  }
  check();
}

}  // namespace rowlock::bench

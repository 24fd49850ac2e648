#include "cli/terminal.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace rowlock::test {

terminal::terminal() : terminal({"bash", "--norc", "--noprofile", "--noediting", "-i"}) {
  expect("prompt> ");
}

terminal::terminal(words leader) {
  std::vector<char*> argv;
  for (auto& word : leader) argv.push_back(word.data());
  argv.push_back(nullptr);
  shell_ = ::forkpty(&master_, nullptr, nullptr, nullptr);
  if (shell_ < 0) throw std::runtime_error("forkpty");
  if (shell_ == 0) {
    ::unsetenv("ROWLOCK_DB");
    ::setenv("HOME", home_.path().c_str(), 1);
    ::setenv("PS1", "prompt> ", 1);
    ::setenv("TERM", "dumb", 1);
    ::execvp(argv[0], argv.data());
    ::_exit(99);
  }
}

terminal::~terminal() {
  if (master_ >= 0) ::close(master_);
  if (shell_ < 0) return;
  ::kill(shell_, SIGKILL);
  ::waitpid(shell_, nullptr, 0);
}

int terminal::hang_up() {
  ::close(master_);
  master_ = -1;
  int status = 0;
  if (!within(60s, [&] { return ::waitpid(shell_, &status, WNOHANG) == shell_; })) return -1;
  shell_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void terminal::type(std::string const& keys) {
  if (::write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size()))
    throw std::runtime_error("pty");
}

void terminal::expect(std::string const& text) { until(text); }

std::string terminal::until(std::string const& text) {
  auto const end = std::chrono::steady_clock::now() + 60s;
  auto at = unread_.find(text);
  while (at == unread_.npos && std::chrono::steady_clock::now() < end) {
    read_more(100ms);
    at = unread_.find(text);
  }
  CAPTURE(text);
  CAPTURE(unread_);
  REQUIRE(at != std::string::npos);
  auto const before = unread_.substr(0, at);
  unread_.erase(0, at + text.size());
  return before;
}

bool terminal::read_more(std::chrono::milliseconds patience) {
  pollfd ready{master_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return false;
  std::array<char, 4096> buffer{};
  auto const size = ::read(master_, buffer.data(), buffer.size());
  if (size <= 0) return false;
  unread_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

}  // namespace rowlock::test

#include "support/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <utility>

namespace rowlock::test {

child_process::child_process(std::vector<std::string> const& arguments) {
  int ends[2];
  int input[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || ::pipe2(input, O_CLOEXEC) != 0)
    throw std::runtime_error("pipe2 failed");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  std::vector<char*> argv;
  for (auto const& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  int const failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ::close(input[0]);
  fd_ = ends[0];
  input_ = input[1];
  if (failed != 0) throw std::runtime_error("cannot start " + arguments.at(0));
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::move(other.output_)) {}

child_process::~child_process() {
  if (input_ >= 0) ::close(input_);  // also a grandchild that has it ends
  if (pid_ > 0) {
    kill();
    finish();
  }
  if (fd_ >= 0) ::close(fd_);
}

void child_process::write_line(std::string const& line) {
  auto const text = line + '\n';
  if (::write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("the child does not read");
}

std::optional<std::string> child_process::next_line(std::chrono::milliseconds patience) {
  auto const until = std::chrono::steady_clock::now() + patience;
  auto end = output_.find('\n', line_start_);
  while (end == output_.npos) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !read_more(static_cast<int>(left.count()))) return std::nullopt;
    end = output_.find('\n', line_start_);
  }
  auto line = output_.substr(line_start_, end - line_start_);
  line_start_ = end + 1;
  return line;
}

bool child_process::read_more(int timeout_ms) {
  pollfd ready{fd_, POLLIN, 0};
  if (::poll(&ready, 1, timeout_ms) <= 0) return false;
  char buffer[4096];
  auto const n = ::read(fd_, buffer, sizeof buffer);
  if (n > 0) output_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

bool child_process::read_until(std::string const& text) {
  while (output_.find(text) == output_.npos)
    if (!read_more(100'000)) return false;
  return true;
}

void child_process::read_for(std::chrono::milliseconds duration) {
  auto const end = std::chrono::steady_clock::now() + duration;
  for (;;) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !read_more(static_cast<int>(left.count()))) return;
  }
}

int child_process::finish() {
  while (read_more(400'000)) {
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void child_process::signal(int number) { ::kill(pid_, number); }

void child_process::kill() { signal(SIGKILL); }

}  // namespace rowlock::test

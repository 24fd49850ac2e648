#include "backend/child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace rowlock::test {

child::child(std::function<int(child&)> const& body) {
  int down[2];
  int up[2];
  if (::pipe(down) != 0 || ::pipe(up) != 0) throw std::runtime_error("pipe");
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  bool const inner = pid_ == 0;
  out_ = inner ? up[1] : down[1];
  in_ = inner ? down[0] : up[0];
  ::close(inner ? up[0] : down[0]);
  ::close(inner ? down[1] : up[1]);
  if (!inner) return;
  int status = 99;
  try {
    status = body(*this);
  } catch (...) {
  }
  ::_exit(status);
}

child::~child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
  ::close(in_);
}

void child::tell() const {
  if (::write(out_, "x", 1) != 1) throw std::runtime_error("the other side has ended");
}

void child::hear() const {
  pollfd one{in_, POLLIN, 0};
  char c = 0;
  if (::poll(&one, 1, 30'000) <= 0 || ::read(in_, &c, 1) != 1)
    throw std::runtime_error("the other side has ended");
}

int child::join() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace rowlock::test

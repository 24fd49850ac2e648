#pragma once
// A forked child that the test talks to in turns.

#include <sys/types.h>

#include <functional>

namespace rowlock::test {

/// Both sides of a pair of pipes. The child runs `body` and ends with its result as exit status; 99 if it
/// throws.
class child {
 public:
  explicit child(std::function<int(child&)> const& body);
  ~child();
  child(child const&) = delete;
  child& operator=(child const&) = delete;

  void tell() const;  ///< lets the other side's next hear() return
  void hear() const;  ///< waits for the other side's tell(); throws if it has ended
  pid_t pid() const noexcept { return pid_; }
  int join();  ///< exit status, or -1 if a signal ended it

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int in_ = -1;
};

}  // namespace rowlock::test

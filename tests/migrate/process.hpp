#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace rowlock::test {

/// A child process whose standard output is read through a pipe; killed and waited for at the end.
class child_process {
 public:
  explicit child_process(std::vector<std::string> const& arguments);
  ~child_process();
  child_process(child_process&& other) noexcept;
  child_process(child_process const&) = delete;
  child_process& operator=(child_process const&) = delete;

  /// Reads until `text` came or output ended. @return whether it came
  bool read_until(std::string const& text);
  /// Reads for as long as this, or until the output ends.
  void read_for(std::chrono::milliseconds);
  /// Reads to the end and waits. @return the exit status, or 128 + signal
  int finish();
  void kill();
  std::string const& output() const noexcept { return output_; }

 private:
  bool read_more(int timeout_ms);

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string output_;
};

}  // namespace rowlock::test

#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rowlock::test {

/// A child process whose standard input and output are pipes; killed and waited for at the end.
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
  void signal(int number);
  pid_t pid() const noexcept { return pid_; }
  void write_line(std::string const& line);
  /// The next line of output that was not returned yet; nothing if none comes in time.
  std::optional<std::string> next_line(std::chrono::milliseconds patience = std::chrono::seconds(100));
  std::string const& output() const noexcept { return output_; }

 private:
  bool read_more(int timeout_ms);

  pid_t pid_ = -1;
  int fd_ = -1;
  int input_ = -1;
  std::string output_;
  std::size_t line_start_ = 0;
};

}  // namespace rowlock::test

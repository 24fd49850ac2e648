#pragma once
// Real processes: what is tested here is what a shell would see.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/support.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

using words = std::vector<std::string>;
/// Variables to set; an empty value unsets. ROWLOCK_DB and XDG_STATE_HOME are unset and HOME is an empty
/// folder unless they are given.
using environment = std::map<std::string, std::string>;

/// A running program in a process group of its own, its output in files. Killed at the end.
class program {
 public:
  explicit program(words, environment = {}, std::string const& input = {});
  ~program();
  program(program const&) = delete;
  program& operator=(program const&) = delete;

  pid_t pid() const noexcept { return pid_; }
  void signal(int) const;
  void signal_group(int) const;
  /// Exit status, or 128 + the signal that it died of. Fails the case, and kills it, if that takes more than
  /// three minutes.
  int wait();
  /// After wait(): the most memory that it had whenever wait() looked.
  long peak_kilobytes() const noexcept { return peak_kilobytes_; }
  int died_of() const noexcept { return died_of_; }  ///< after wait(): the signal, or 0
  std::string out() const;
  std::string err() const;
  /// Waits until the output, without the newline at its end, is `text`.
  bool prints(std::string const& text);

 private:
  scratch_folder folder_;
  pid_t pid_ = -1;
  int died_of_ = 0;
  long peak_kilobytes_ = 0;
};

struct finished {
  int status;
  std::string out;
  std::string err;
  bool says(std::string const& text) const { return err.find(text) != std::string::npos; }
};

/// Runs to the end.
finished run(words, environment = {}, std::string const& input = {});

bool within(std::chrono::milliseconds, std::function<bool()> const& condition);
std::string read_file(std::string const& path);
/// True if there is a process with that id that is not only waiting to be reaped.
bool alive(pid_t);
/// Whether any process but `except` has `text` among its words.
bool any_process_with(std::string const& text, pid_t except = -1);
/// The guardian that a process has started, or is about to start: for a moment after its fork it has no name
/// of its own. -1 if there is none for long.
pid_t guardian_of(pid_t);
/// Whether all processes with `text` among their arguments, but the guardian, are stopped.
bool all_stopped_with(std::string const& text);
double seconds_since(std::chrono::steady_clock::time_point);

/// The program under test, and the guardian's test driver.
inline std::string const rowlock_program = ROWLOCK_PROGRAM;
inline std::string const guarded_program = ROWLOCK_GUARDED;

}  // namespace rowlock::test

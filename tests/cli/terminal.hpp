#pragma once

#include <sys/types.h>

#include <string>

#include "cli/program.hpp"

namespace rowlock::test {

/// An interactive shell on a terminal of its own (a pty), as a user has it.
class terminal {
 public:
  terminal();
  /// With these words in the shell's place: what runs is the leader of the session.
  explicit terminal(words leader);
  ~terminal();
  terminal(terminal const&) = delete;
  terminal& operator=(terminal const&) = delete;

  /// As if typed; "\x03" is Ctrl-C, "\x1a" Ctrl-Z, "\n" Return.
  void type(std::string const& keys);
  /// Waits until `text` is shown behind all that was waited for before. Fails the case if it does not come.
  void expect(std::string const& text);
  /// The same, and returns what is shown before it.
  std::string until(std::string const& text);
  /// Closes it, as when its window is closed or its connection lost. @return the leader's exit status, or 128
  /// + the signal that it died of; -1 if it goes on
  int hang_up();
  std::string home() const { return home_.path().string(); }

 private:
  bool read_more(std::chrono::milliseconds);

  scratch_folder home_;
  pid_t shell_ = -1;
  int master_ = -1;
  std::string unread_;
};

}  // namespace rowlock::test

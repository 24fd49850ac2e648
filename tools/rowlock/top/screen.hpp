#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "top/table.hpp"

namespace rowlock::tool {

/// The terminal of stdin and stdout, all of it, as long as this lives. For one thread, which has SIGINT,
/// SIGTERM, SIGWINCH and SIGTSTP blocked: curses then handles none of them.
class screen {
 public:
  /// Whether both are a terminal, one on which a cursor can be moved (TERM).
  static bool possible();
  /// Precondition: possible()
  screen();
  ~screen();
  screen(screen const&) = delete;
  screen& operator=(screen const&) = delete;

  /// The terminal may have another size now.
  void resize();
  /// Gives the terminal back until resume(), with the settings that it had.
  void suspend();
  void resume();
  void draw(top_table&);
  /// A key that was pressed already. Empty: none, or one that means nothing here.
  std::optional<key> pressed();

 private:
  struct terminal;
  std::unique_ptr<terminal> terminal_;
};

}  // namespace rowlock::tool

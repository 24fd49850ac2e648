#pragma once

#include <rowlock/types.hpp>
#include <string>

namespace rowlock::tool {

/// On a terminal: one line on stderr that says who is waited for, rewritten as that changes and gone at the
/// end. On one that can't rewrite (TERM=dumb) a line that stays. On anything else nothing.
class waiting_line {
 public:
  explicit waiting_line(std::string const& name);
  ~waiting_line();
  waiting_line(waiting_line const&) = delete;
  waiting_line& operator=(waiting_line const&) = delete;

  bool wanted() const noexcept { return wanted_; }
  /// Null: the holder is not known.
  void show(holder_info const*);

 private:
  std::string const& name_;
  bool wanted_;
  bool rewrites_;
  std::string shown_;
};

}  // namespace rowlock::tool

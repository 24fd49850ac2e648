#pragma once
// The locks of a database in the order of their names, read in parts: a reply of any size would not do, nor a
// statement that takes any time. What changes meanwhile is seen or not.

#include <deque>
#include <map>
#include <optional>
#include <rowlock/options.hpp>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

#include "base/glob.hpp"
#include "manager/engine.hpp"

namespace rowlock::managing {

lock_info as_info(strategies::term_row);

/// Of one call, on one session. Names come from two tables: each has a cursor, and next() takes the smaller
/// name.
class listing {
 public:
  listing(engine&, backend::connection&, list_options const&);

  /// What is held of the next name: one lock, or several permits. Empty: the end. @throws error
  std::vector<lock_info> next();

 private:
  void read_locks();
  bool begin_window();
  void add_held_by_sessions(std::string const& up_to);
  void read_permits();

  engine& engine_;
  backend::connection& session_;
  base::glob const names_;
  std::string const prefix_;
  strategies::rows_wanted wanted_;  ///< from: where the next part begins; to: where the window ends, or ""
  strategies::permits_wanted permits_wanted_;
  std::map<std::string, holder_info> by_sessions_;  ///< in the window, what the rows do not tell
  std::deque<lock_info> locks_;
  std::deque<lock_info> permits_;
  bool all_locks_ = false;  ///< were read
  bool all_permits_ = false;
};

}  // namespace rowlock::managing

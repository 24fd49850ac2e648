#pragma once
// The locks of a database in the order of their names, read in parts to bound replies and statements. A
// change during the listing might be missed.

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

/// One call, on one session. Two tables have names: each has a cursor, and next() returns the smaller name.
class listing {
 public:
  listing(engine&, backend::connection&, list_options const&);

  /// The next name's lock, or its permits. Empty: the end. @throws error
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
  strategies::rows_wanted wanted_;  ///< from: start of the next part. to: end of the window, or ""
  strategies::permits_wanted permits_wanted_;
  std::map<std::string, holder_info> by_sessions_;  ///< in the window, locks without a row
  std::deque<lock_info> locks_;
  std::deque<lock_info> permits_;
  bool all_locks_ = false;
  bool all_permits_ = false;
};

}  // namespace rowlock::managing

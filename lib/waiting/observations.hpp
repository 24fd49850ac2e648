#pragma once
// How long rows have been seen unchanged, over several calls: so a caller that polls can take over, too.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "strategy/term_rows.hpp"

namespace rowlock::waiting {

/// Thread-safe.
class observations {
 public:
  /// Call it after the reply that showed the row. @return since when this manager knows its term and renewals
  boot_time_point since(strategies::term_row const& row, std::int64_t incarnation) {
    std::lock_guard const guard(mutex_);
    if (seen_.size() >= most && !seen_.contains(row.name)) seen_.clear();  // all watches restart
    auto& known = seen_[row.name];
    if (known.term.value != row.term.value || known.renewals != row.renewals ||
        known.incarnation != incarnation)
      known = {row.term, row.renewals, incarnation, boot_clock::now()};
    return known.since;
  }

 private:
  /// More than the names for which one process with an event loop waits (10,000, say). With fewer, calls for
  /// many names would end each other's watches, and none could take over. About 4 MB.
  static constexpr std::size_t most = 16384;
  struct sight {
    term_id term;
    std::int64_t renewals = 0;
    std::int64_t incarnation = 0;
    boot_time_point since;
  };
  std::mutex mutex_;
  std::map<std::string, sight> seen_;
};

}  // namespace rowlock::waiting

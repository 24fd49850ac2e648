#pragma once
// One run of the reaper through permits, locks and tokens, page by page.

#include <functional>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/reaping.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "sessions/database.hpp"
#include "strategy/reaping.hpp"

namespace rowlock::reap {

class sweep {
 public:
  sweep(sessions::database&, reaper_options const&, std::stop_token);

  /// Ends after the last page, or when stop is requested. @throws error that retries did not mend
  reap_result run();
  void record(reap_result const&);

 private:
  void go_through(strategies::reaped_table);
  void go_through_permits();
  strategies::page_look clean(strategies::page const&);
  void end_kept();
  void ride_out(std::function<void(backend::connection&)> const& what);
  void pause(std::chrono::nanoseconds);
  backend::connection& session();
  boot_time_point reply_deadline() const { return boot_clock::now() + options_.reply_timeout; }
  std::chrono::milliseconds so_far() const;

  sessions::database& database_;
  reaper_options const& options_;
  std::stop_token stop_;
  strategies::reaping statements_;
  boot_time_point const began_ = boot_clock::now();
  std::unique_ptr<backend::connection> session_;
  reap_result result_;
  std::vector<strategies::kept_term> kept_;  ///< a bounded number, to be watched
  /// The floor that this run set last, to save statements. If it is wrong, the DELETE itself leaves rows.
  std::int64_t floor_ = 0;
};

}  // namespace rowlock::reap

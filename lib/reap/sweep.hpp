#pragma once
// One run of the reaper through both tables, page by page.

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

  /// Until everything was gone through, or stop is requested. @throws error what can't be ridden out
  reap_result run();
  /// Writes down what run() did.
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
  std::vector<strategies::kept_term> kept_;  ///< a bounded number of them, to be watched
  /// What the floor was raised to, to save statements. If this is wrong, the DELETE looks itself, and leaves
  /// rows.
  std::int64_t floor_ = 0;
};

}  // namespace rowlock::reap

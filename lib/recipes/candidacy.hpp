#pragma once
// What the campaigns and terms of one election object share. A term can outlive the object.

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/types.hpp>
#include <string>
#include <utility>

namespace rowlock::recipes {

/// Gives other candidates a turn where no wait queue exists: longer than their pause between tries.
constexpr std::chrono::seconds pause_after_a_term{1};

struct candidacy {
  std::atomic<bool> runs{false};
  std::atomic<boot_time_point> last_term_ended{};
};

/// Allows one campaign or term of an election at a time.
class only_candidate {
 public:
  only_candidate(std::shared_ptr<candidacy> c, std::string const& name) : candidacy_(std::move(c)) {
    if (candidacy_->runs.exchange(true))
      throw error(errc::would_deadlock,
                  fmt::format("'{}': a campaign or a term of this election is under way", name));
  }
  ~only_candidate() { candidacy_->runs = false; }
  only_candidate(only_candidate const&) = delete;
  only_candidate& operator=(only_candidate const&) = delete;

  void term_ends() noexcept { candidacy_->last_term_ended = boot_clock::now(); }
  boot_time_point begins_at() const noexcept {
    auto const last = candidacy_->last_term_ended.load();
    return last == boot_time_point{} ? last : last + pause_after_a_term;
  }

 private:
  std::shared_ptr<candidacy> const candidacy_;
};

}  // namespace rowlock::recipes

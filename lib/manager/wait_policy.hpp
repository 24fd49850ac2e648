#pragma once
// How long a call that takes locks may take, and what it rides out meanwhile.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <string_view>

#include "manager/engine.hpp"

namespace rowlock::managing {

/// What is done beside a call that waits, once it is at the front of the line and asks: a quorum asks its
/// other members. Once in a call, by the thread that asks.
class beside_front {
 public:
  virtual ~beside_front() = default;
  /// It asks now. @return the token that is asked for
  virtual fencing_token asks() = 0;
  /// It was refused, or failed; if it asks again, then alone.
  virtual void refused() = 0;
};

/// How long a call may take.
struct wait_policy {
  bool one_attempt = false;
  bool retry_forever =
      false;  ///< for callers that can't be told "not got": a bound of attempts does not count
  std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< empty: for ever
  bool rides_out_outages = true;  ///< else the caller has others to ask, and hears of them at once
  beside_front* beside = nullptr;
  bool* came_too_late = nullptr;  ///< becomes true if it fails because a grant was not heard of in time

  bool over() const noexcept;
  boot_time_point ends() const noexcept;
};

/// Now plus `timeout`, which is none if it is negative; empty (for ever) if that is beyond the clock's range.
std::optional<std::chrono::steady_clock::time_point> deadline_after(
    std::chrono::nanoseconds timeout) noexcept;

/// That it is of something that is not meant to last: a server takes no writes (a switch-over), a disk is
/// full, or nobody can connect to the database by its name (it is being renamed, or restored).
bool may_end(error const&) noexcept;

/// Tells the program of the error of an attempt, if it is one.
/// @return false if the caller has to hear of it at once; `attempts`: that were made, with this one
bool rides_out(engine&, std::string_view name, error const&, wait_policy const&, int attempts) noexcept;

/// How long one attempt rides out what is locked although nobody holds it; a statement that is waiting then
/// has its own second.
inline constexpr std::chrono::milliseconds longest_moment{1000};

/// How long a statement of which nobody awaits the reply any more may stand in the server behind a locked
/// row: a second, as its session waits for one, and one more, as some servers look only each second.
inline constexpr std::chrono::milliseconds longest_wait_in_server{2000};

/// That a clock can add.
inline constexpr std::chrono::milliseconds longest_pause = std::chrono::hours(24 * 366);

}  // namespace rowlock::managing

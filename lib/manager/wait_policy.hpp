#pragma once
#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <string_view>

#include "manager/engine.hpp"
#include "manager/member.hpp"

namespace rowlock::managing {

struct wait_policy {
  bool one_attempt = false;
  bool retry_forever = false;  ///< for lock(), which can't return "not acquired": ignores a bound of attempts
  std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< empty: none
  quorum_hook* quorum = nullptr;                                    ///< of a quorum's call

  /// Whether the call tries again after an outage. A quorum can have other members to ask.
  bool rides_out_outages() const noexcept { return quorum == nullptr || !quorum->has_others_to_ask(); }
  bool over() const noexcept;
  boot_time_point ends() const noexcept;
};

/// Whether the error's cause can pass: a server takes no writes (a switch-over), a disk is full, or there is
/// no database of that name (it is being renamed, or restored).
bool may_end(error const&) noexcept;

/// Whether the call goes on after an attempt's error. Reports the error, unless a row was locked.
/// `attempts`: with this one.
bool rides_out(engine&, std::string_view name, error const&, wait_policy const&, int attempts) noexcept;

/// How long a single attempt rides out a row that is locked without a holder. A waiting statement's own
/// second comes on top.
inline constexpr std::chrono::milliseconds longest_moment{1000};

/// How long an abandoned statement can wait in the server for a locked row: its session's limit, a second,
/// and one more, because some servers check only each second.
inline constexpr std::chrono::milliseconds longest_wait_in_server{2000};

/// The longest pause that the clocks can add safely.
inline constexpr std::chrono::milliseconds longest_pause = std::chrono::hours(24 * 366);

}  // namespace rowlock::managing

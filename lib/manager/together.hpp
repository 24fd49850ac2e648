#pragma once
// Takes and releases of several threads in one statement and one flush (lib/doc/together.md). Each succeeds
// or fails by itself. A thread whose name is busy, absent or locked then tries alone.

#include <optional>
#include <rowlock/error.hpp>
#include <span>

#include "backend/backend.hpp"
#include "base/combining.hpp"
#include "strategy/locking_strategy.hpp"

namespace rowlock::managing {

struct engine;

/// A thread's take and its outcome.
struct shared_take {
  strategies::locking_strategy const* strategy = nullptr;
  strategies::take_request what{};  ///< the leader sets the term
  std::optional<strategies::granted> won{};
  boot_time_point sent_at{};
  std::size_t server = 0;
  bool doubtful = false;          ///< the term might be granted, now or later
  std::optional<error> failed{};  ///< the reason, if there was memory for it
};

/// Whether one statement can take both.
bool go_together(shared_take const&, shared_take const&) noexcept;
void take_together(engine&, backend::connection&, std::span<shared_take* const>) noexcept;

/// A thread's release and its outcome.
struct shared_release {
  strategies::locking_strategy const* strategy = nullptr;
  strategies::name_and_term which{};
  strategies::given_back done{};
  std::optional<error> failed{};
};

void release_together(engine&, backend::connection&, std::span<shared_release* const>,
                      boot_time_point deadline) noexcept;

struct traffic {
  static constexpr std::size_t most = 64;
  /// So few threads go as they come. More wait for each other: together they make more (lib/doc/together.md).
  static constexpr std::size_t enough = 8;
  base::combining<shared_take> takes{{most, enough}};
  base::combining<shared_release> releases{{most, enough}};
};

}  // namespace rowlock::managing

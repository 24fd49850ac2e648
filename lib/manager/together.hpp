#pragma once
// Takes and releases of several callers in one statement and one flush (lib/doc/together.md). Each succeeds
// or fails by itself. A caller whose name is busy, absent or locked then tries alone.

#include <optional>
#include <rowlock/error.hpp>
#include <span>

#include "backend/backend.hpp"
#include "base/combining.hpp"
#include "sessions/connection_pool.hpp"
#include "strategy/locking_strategy.hpp"

namespace rowlock::managing {

struct engine;

/// A caller's take and its outcome.
struct shared_take {
  strategies::locking_strategy const* strategy = nullptr;
  strategies::take_request what{};  ///< without the term
  std::optional<strategies::granted> won{};
  boot_time_point sent_at{};
  std::size_t server = 0;
  bool doubtful = false;          ///< the term might be granted, now or later
  std::optional<error> failed{};  ///< the reason, if there was memory for it
};

/// Whether one statement can take both.
bool go_together(shared_take const&, shared_take const&) noexcept;
void take_together(engine&, backend::connection&, std::span<shared_take* const>) noexcept;

/// A caller's release and its outcome.
struct shared_release {
  strategies::locking_strategy const* strategy = nullptr;
  strategies::name_and_term const& which;
  boot_time_point deadline{};
  strategies::given_back done{};
  std::optional<error> failed{};
};

void release_together(engine&, backend::connection&, std::span<shared_release* const>) noexcept;

struct traffic {
  explicit traffic(engine&);
  /// Ends the threads, when no call is under way.
  void stop(std::thread::id spare) noexcept;

  template <class Job>
  using line = base::combining<Job, sessions::connection_pool::loan>;
  line<shared_take> takes;
  line<shared_release> releases;
};

}  // namespace rowlock::managing

#pragma once
// Takes and releases of several threads that go to the database together: one statement, one flush. Each is
// for itself: what can't be done this way (the name is busy, absent, locked by a transaction) its thread does
// alone.

#include <optional>
#include <rowlock/error.hpp>
#include <span>

#include "backend/backend.hpp"
#include "base/combining.hpp"
#include "strategy/locking_strategy.hpp"

namespace rowlock::managing {

struct engine;

/// A thread's take, and what became of it.
struct shared_take {
  strategies::locking_strategy const* strategy = nullptr;
  strategies::take_request what{};  ///< the one that leads gives it a term
  std::optional<strategies::granted> won{};
  boot_time_point sent_at{};
  std::size_t server = 0;
  bool doubtful = false;          ///< the term may have been granted, or may still be granted
  std::optional<error> failed{};  ///< why, if there was memory to say so. Without it, it is tried alone
};

/// Whether one statement can take both.
bool go_together(shared_take const&, shared_take const&) noexcept;
void take_together(engine&, backend::connection&, std::span<shared_take* const>) noexcept;

/// A thread's release, and what became of it.
struct shared_release {
  strategies::locking_strategy const* strategy = nullptr;
  strategies::name_and_term which{};
  strategies::given_back done{};
  std::optional<error> failed{};
};

void release_together(engine&, backend::connection&, std::span<shared_release* const>,
                      boot_time_point deadline) noexcept;

/// Those of one manager.
struct traffic {
  static constexpr std::size_t most = 64;
  base::combining<shared_take> takes{most};
  base::combining<shared_release> releases{most};
};

}  // namespace rowlock::managing

#pragma once
// What is asked about the units of a name, whoever holds permits.

#include <cstdint>
#include <optional>
#include <string>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing {

/// Made for one call; thread-safe. Everything throws error.
class named_permits {
 public:
  explicit named_permits(engine& e) noexcept : engine_(e) {}

  void set_limit(lock_spec const&, std::int64_t limit);
  std::optional<std::int64_t> free_units(lock_spec const&);

 private:
  engine& engine_;
};

}  // namespace rowlock::managing

#pragma once

#include <span>

#include "backend/checks.hpp"

namespace rowlock::backend::mysql {

/// The doctor's checks, in this order.
std::span<named_check const> checks() noexcept;

}  // namespace rowlock::backend::mysql

#pragma once

#include <span>

#include "backend/checks.hpp"

namespace rowlock::backend::sqlite {

/// The doctor's checks, in this order.
std::span<named_check const> checks() noexcept;

/// Judges locks on such a file system (statfs(2), f_type).
opinion judge_file_system(std::uint64_t kind, bool wal);

}  // namespace rowlock::backend::sqlite

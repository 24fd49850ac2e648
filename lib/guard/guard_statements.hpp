#pragma once
// The guards that a driver of the program's own runs: texts and values. Nothing is sent from here.

#include <rowlock/guard_statement.hpp>
#include <vector>

#include "guard/required_lock.hpp"

namespace rowlock::guard {

/// See held_lock::guard_statements().
std::vector<guard_statement> guard_statements(required_lock const&, placeholders);

}  // namespace rowlock::guard

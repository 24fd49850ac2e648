#pragma once

#include <rowlock/export.hpp>
#include <string>
#include <vector>

namespace rowlock::base {

/// 128 bits from the kernel's generator as 32 lower-case hexadecimal digits: collisions and guesses are out
/// of the question, also in a forked child or a resumed virtual machine, where a generator seeded in this
/// process would repeat.
ROWLOCK_EXPORT std::string random_id();

/// So many, with fewer calls of the kernel. (None are kept for later: see above.)
std::vector<std::string> random_ids(std::size_t n);

}  // namespace rowlock::base

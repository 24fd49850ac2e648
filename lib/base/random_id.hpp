#pragma once

#include <rowlock/export.hpp>
#include <string>
#include <vector>

namespace rowlock::base {

/// 128 bits from the kernel's generator, as 32 lower-case hexadecimal digits. A generator seeded in this
/// process would repeat ids in a forked child or a resumed virtual machine.
ROWLOCK_EXPORT std::string random_id();

/// `n` ids, with fewer system calls. None are kept for later.
std::vector<std::string> random_ids(std::size_t n);

}  // namespace rowlock::base

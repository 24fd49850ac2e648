#pragma once

#include <memory>

#include "ledger.hpp"

namespace rowlock::torture {

/// In a table beside the locks, torture_sums, which is dropped when this ends. A section reads, thinks, and
/// writes in a transaction of the client's own; as guarded_set and force that one requires the lock. As
/// row_lock all of it is one transaction, which locks first.
/// @throws std::runtime_error if this program was built without SOCI
std::unique_ptr<ledger> make_ledger_in_database(options const&);

}  // namespace rowlock::torture

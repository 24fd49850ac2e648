#pragma once
// A second migration, for what only the next one shows: there is none yet.

#include <rowlock/connection_source.hpp>

namespace rowlock::test {

/// The same database, to migrators that know version 2 as well: a column of rowlock_locks and one of
/// rowlock_tokens.
connection_source with_toy(connection_source const&);

}  // namespace rowlock::test

#pragma once
// A migration after those that are shipped, for what only the next one shows.

#include <rowlock/connection_source.hpp>

#include "sessions/database.hpp"

namespace rowlock::test {

/// The newest version that is shipped, and the toy's.
constexpr int shipped_version = sessions::latest_schema_version;
constexpr int toy_version = shipped_version + 1;

/// The same database, to migrators that know the toy as well: a column of rowlock_locks and one of
/// rowlock_tokens.
connection_source with_toy(connection_source const&);

}  // namespace rowlock::test

#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace rowlock::test {

/// Waits until a session of a server of MySQL or MariaDB waits for a row, as another session sees it: it
/// executes a statement, and goes on doing so for some moments. False after a generous time. MariaDB shows no
/// more to a prepared statement than innodb_trx, where nothing new appears as long as anybody on the server
/// looks at it more often than ten times a second.
bool comes_to_wait(backend::connection& watch, std::int64_t session);

}  // namespace rowlock::test

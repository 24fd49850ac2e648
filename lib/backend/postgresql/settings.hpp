#pragma once
// What a session of the library's own is set up with; behind a pooler, each transaction.

#include <cstddef>
#include <string>

#include "backend/postgresql/pooler.hpp"

namespace rowlock::backend::postgresql {

/// The statements of a session's first round trip. `told_process` is what the login said (PQbackendPID).
std::string set_up_text(int server_version, bool check_client, pooling, int told_process);
/// The place of the answer among the results of that: the server's start in microseconds, the database's
/// number, the process that answers, and as JSON the schemas that the user's own search path leads to.
inline constexpr std::size_t who_place = 1;

/// What tells a server and its database from all others: two numbers, as the server wrote them.
struct whereabouts {
  std::string started;   ///< microseconds
  std::string database;  ///< its oid
};

/// One statement that sets what statements rely on, until the transaction ends. It fails, with `moved` in the
/// message, where another server or database answers: who is behind a pooler may change while we stay
/// connected to it. [C8]
std::string local_settings_text(int server_version, whereabouts const&);
inline constexpr char const* moved = "rowlock: not the server and database of the log-in";

}  // namespace rowlock::backend::postgresql

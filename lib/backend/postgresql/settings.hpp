#pragma once
// The settings of a session of rowlock's own, or of each transaction behind a pooler.

#include <cstddef>
#include <string>

#include "backend/postgresql/own_words.hpp"

namespace rowlock::backend::postgresql {

/// The statements of a session's first round trip. `told_process` is the log-in's PQbackendPID.
std::string set_up_text(int server_version, bool check_client, pooling, int told_process);
/// The index of its result of four columns: the server's start in microseconds, the database's oid, the
/// answering process, and as JSON the schemas of the user's own search path.
inline constexpr std::size_t who_place = 1;

/// Identifies a server and its database, by numbers as the server wrote them.
struct whereabouts {
  std::string started;  ///< microseconds
  std::string database;
};

/// Sets what statements rely on, until the transaction ends. Fails with `moved` in the message if another
/// server or database answers: a pooler can change it under an open connection. [C8]
std::string local_settings_text(int server_version, whereabouts const&, bool flushed);
inline constexpr char const* moved = "rowlock: not the server and database of the log-in";

}  // namespace rowlock::backend::postgresql

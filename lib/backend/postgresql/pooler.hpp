#pragma once
// The program's knowledge of a pooler between rowlock and the server.

#include <string>

namespace rowlock::backend::postgresql {

/// How long rowlock has the server's session.
enum class pooling {
  detect,       ///< a pooler is found if another process answers than the log-in named
  session,      ///< as long as the connection, also through a pooler
  transaction,  ///< for one transaction
};

/// Takes "pooler=..." out of a connection string, because libpq does not know it.
/// @throws error(errc::invalid_argument) unless it is session or transaction
pooling take_pooler(std::string& conninfo);

}  // namespace rowlock::backend::postgresql

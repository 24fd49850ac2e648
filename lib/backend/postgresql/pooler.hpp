#pragma once
// What lies between us and the server, as far as the program knows and says it.

#include <string>

namespace rowlock::backend::postgresql {

/// Whose the server's session is that answers.
enum class pooling {
  detect,       ///< found out: if the login was answered with another process's number, there is a pooler
  session,      ///< ours alone, whatever is in between
  transaction,  ///< ours for one transaction, then others'
};

/// Takes "pooler=session" or "pooler=transaction" out of a connection string: libpq does not know the word.
/// @throws error(errc::invalid_argument) for any other value
pooling take_pooler(std::string& conninfo);

}  // namespace rowlock::backend::postgresql

#pragma once
// What lies between us and the server, as far as the program knows and says it.

#include <string>

namespace rowlock::backend::postgresql {

/// To whom the server's session belongs that answers.
enum class pooling {
  detect,       ///< found out: whoever answered the login with another process's number is a pooler
  session,      ///< to us alone, whatever is between
  transaction,  ///< to us for one transaction, then to others
};

/// Takes "pooler=session" or "pooler=transaction" out of a connection string: libpq does not know the word.
/// @throws error(errc::invalid_argument) for any other value
pooling take_pooler(std::string& conninfo);

}  // namespace rowlock::backend::postgresql

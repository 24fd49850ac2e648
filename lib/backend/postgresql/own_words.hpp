#pragma once
// What the program says of its connections, in words that libpq does not know.

#include <string>

namespace rowlock::backend::postgresql {

/// How long rowlock has the server's session.
enum class pooling {
  detect,       ///< a pooler is found if another process answers than the log-in named
  session,      ///< as long as the connection, also through a pooler
  transaction,  ///< for one transaction
};

struct own_words {
  pooling how = pooling::detect;  ///< pooler=
  bool flushes_all = true;        ///< flush=. False: only commits that the quarantine does not make up for
};

/// Takes its words out of a connection string.
/// @throws error(errc::invalid_argument) if one has a value that it can't have
own_words take_own_words(std::string& conninfo);

}  // namespace rowlock::backend::postgresql

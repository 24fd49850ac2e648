#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <functional>
#include <string>

struct sqlite3;  // <sqlite3.h>'s own declaration, so that it need not be included here

namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE {

/// The changes of the file that survive a power cut, or a crash of the machine, in WAL mode. All changes
/// survive the end of any process. Without a WAL every change is flushed.
enum class synchronous {
  /// What can outlive its process: fixed terms, detached locks, at_least, takes_over, on_trust, records,
  /// revocations, a quorum's votes. Other holders end with the machine, so a crash may undo their takes.
  /// Fencing tokens do not come again. Work that goes on elsewhere after the crash is not waited for.
  /// (lib/doc/sqlite.md)
  normal,
  /// Every take and renewal, too. (A lost release leaves the lock to its expiry.) Several times as slow.
  full,
};

/// Connections to an SQLite database file.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `path`: an existing file (`rowlock migrate up` makes one). Or ":memory:", for tests of your own code: an
  /// empty database (`migrator(source).up()` makes the tables) that all connections of this source and its
  /// copies share, and that ends with them. Other processes can't see it, and a forked child is refused
  /// (errc::forked). Does not open the file yet.
  /// @throws error(errc::unsupported) if `path` is empty; errc::invalid_argument if it contains U+0000
  explicit source(std::string path, synchronous durability = synchronous::normal);

  /// `open` is called for each new connection, from any thread, perhaps from several at once. An exception or
  /// a null pointer is errc::unreachable. rowlock closes the connection with sqlite3_close_v2.
  ///
  /// Preconditions: nothing else uses the returned connection, which is outside a transaction.
  /// @throws error(errc::invalid_argument) if `open` is empty
  explicit source(std::function<sqlite3*()> open);

  /// The URI of a database in memory, for a connection of the program's own with
  /// sqlite::transaction::require(): sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI,
  /// nullptr). Empty for other databases.
  std::string memory_uri() const;
};

}  // namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE

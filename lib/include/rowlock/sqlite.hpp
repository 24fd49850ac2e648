#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <functional>
#include <string>

struct sqlite3;  // <sqlite3.h>'s own declaration, so that it need not be included here

namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE {

/// What of the file's content survives a power cut, or a crash of the machine. What survives the end of every
/// process, however it ends, is always all of it.
enum class synchronous {
  /// Every take and renewal. (A release that is forgotten leaves the lock to its expiry.)
  full,
  /// In WAL mode: what was flushed by chance. Some seconds' takes may be undone, so that the name looks free
  /// or as somebody had it before, and their tokens come again: for locks that nothing outlives which the
  /// power
  /// cut does not end, too. Several times as fast. Without a WAL it is the same as full.
  normal,
};

/// Connections to an SQLite database file.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `path`: a file that exists already (`rowlock migrate up` makes one). Or ":memory:", for tests of your
  /// own code: an empty database (`migrator(source).up()` makes the tables). All connections of this source
  /// and of its copies share it, no other process can see it, and it goes away with them. In a forked child
  /// it is refused (errc::forked). Does not open the file yet.
  /// @throws error(errc::unsupported) if `path` is empty; invalid_argument if it contains U+0000
  explicit source(std::string path, synchronous durability = synchronous::full);

  /// `open` is called whenever another connection is needed, from any thread, perhaps from several at once.
  /// What it throws, and a null pointer, is errc::unreachable. rowlock closes the connection with
  /// sqlite3_close_v2.
  ///
  /// Preconditions: nothing else uses the connection that `open` returns. It is outside a transaction.
  /// @throws error(errc::invalid_argument) if `open` is empty
  explicit source(std::function<sqlite3*()> open);

  /// Of a database in memory: what a connection of the program's own opens it by, to call
  /// sqlite::transaction::require() on it: sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI,
  /// nullptr). Empty for others.
  std::string memory_uri() const;
};

}  // namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE

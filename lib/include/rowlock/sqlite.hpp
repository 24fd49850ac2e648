#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <functional>
#include <string>

struct sqlite3;  // <sqlite3.h>'s own declaration, so that it need not be included here

namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE {

/// Connections to an SQLite database file.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `path`: a file that exists already (`rowlock migrate up` makes one). Or ":memory:", for tests of your
  /// own code: an empty database (`migrator(source).up()`) that all connections of this source and of its
  /// copies share, that no other process can see, and that goes away with them; in a forked child it is
  /// refused (errc::forked).
  explicit source(std::string path);

  /// `open` is called, from any thread, whenever another connection is needed, and returns one that nothing
  /// else uses; rowlock closes it with sqlite3_close_v2. Throws whatever it throws as errc::unreachable.
  explicit source(std::function<sqlite3*()> open);
};

}  // namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE

#pragma once
// Three members on servers of different kinds, and programs that use them.

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/quorum.hpp>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

#include "contract/databases.hpp"
#include "support/eventually.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

/// Of the locks, and the longest that there is. Renewals must come in time on a busy machine, too.
inline constexpr std::chrono::milliseconds short_ttl = 5s;

/// What one program has: its own managers, and a quorum of them.
struct program_of_members {
  std::vector<std::unique_ptr<lock_manager>> managers;
  std::unique_ptr<rowlock::quorum> quorum;
  rowlock::quorum& operator*() const { return *quorum; }
  rowlock::quorum* operator->() const { return quorum.get(); }
};

class three_members {
 public:
  /// With `made`, they are a quorum whose longest ttl is short_ttl.
  explicit three_members(bool made = true);

  program_of_members program(quorum_options options = {}, std::chrono::milliseconds reply_timeout = 4s);
  /// A free lock that somebody else had when this program asked for it: from now on, for five seconds, it
  /// asks one member first.
  quorum_mutex met_others(rowlock::quorum& of_program);
  fixture& at(std::size_t i) { return *all_.at(i); }
  static constexpr std::size_t size = 3;

  /// From now on it does not answer, or does again.
  void cut_off(std::size_t i);
  void mend(std::size_t i);
  /// As a disk that was lost and a database that was made anew has it, but for its id.
  void wipe(std::size_t i);
  /// Waits until each of them has one row, which nobody has. (What comes late is given back later, beside.)
  bool are_free();
  /// The same, and before, has this program make the rows: a lock that is given back as soon as a majority
  /// has granted it may have been asked of no other.
  bool have_rows(rowlock::quorum& of_program);
  /// A number that SQL tells.
  std::int64_t number(std::size_t i, std::string const& sql);

 private:
  postgresql_fixture postgresql_;
  std::unique_ptr<fixture> mysql_like_;  ///< on MariaDB, or where that is not there, MySQL
  sqlite_fixture sqlite_;
  std::array<fixture*, size> all_;
};

/// A lock that is renewed.
inline mutex_options short_term() {
  mutex_options o;
  o.ttl = short_ttl;
  return o;
}

/// Why `f` has thrown; errc{} if it has not.
errc reason_of(auto&& f) {
  try {
    f();
  } catch (error const& e) {
    return e.reason();
  }
  return errc{};
}

inline std::int64_t token_at(three_members& m, std::size_t i) {
  return m.number(i, "SELECT token FROM rowlock_locks WHERE name = 'x'");
}

}  // namespace rowlock::test

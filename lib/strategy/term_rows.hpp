#pragma once
// The shared statements on rows that hold terms.
//
//   table            rows                 strategies
//   rowlock_locks    one per name         lease, unique_insert, once, quorum; anchors of row_lock
//   rowlock_permits  one per permit       shared, semaphore
//
// Isolation: autocommit at READ COMMITTED. lib/doc/interleavings.md shows the statements that can
// come in between.
//
// - A read decides nothing. A change names a term, and changes nothing if the row has another one.
//   Only revoke() can also name all permits of a name.
// - Terms are never used again, so a statement that is repeated or applied late harms no other owner.
// - A taker looks at takeable(), by the database's clock, and at must_be_silent_for(), by observation
//   (lib/doc/lease.md). Its statement checks the row again.
//
//   if a transaction has locked the row
//   renew()                                      skips it. check() tells why.
//   extend(), set_note(), revoke(), release_*()  wait a second at most
//   keep_record()                                waits a second at most. With one writer: a plain read.
//   is_locked()                                  does not wait. With one writer: for the file.
//
//   if a later version, or a person, wrote values that can't be read
//   read(), read_all()              throw schema_new for an unknown strategy or takeover, not for a time.
//   find(), list(), list_permits()  do not throw: see term_row::unreadable.
//
// Thread-safe, because term_rows is immutable.

#include <chrono>
#include <optional>
#include <rowlock/types.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::strategies {

struct term_row {
  std::string name;
  term_id term;  ///< empty: free
  std::int64_t renewals = 0;
  std::chrono::milliseconds ttl{0};
  rowlock::takeover takeover = takeover::clock;
  holder_info holder;
  bool hard_limit_reached = false;
  /// Why the row can't be read whole. Times are clamped.
  std::string unreadable;
  /// takeover::clock: the longest time from a change to the expiry; empty if plain SQL took the row.
  std::optional<std::chrono::milliseconds> longest{};

  /// Free, or expired by the database's clock.
  bool takeable() const noexcept;

  /// How long the row must be unchanged before the term can be taken by observation; empty: it can't. With
  /// takeover::clock only if the expiry is further away than `longest`: the clock went back (C5, C57).
  std::optional<std::chrono::milliseconds> must_be_silent_for() const;
};

struct name_and_term {
  std::string name;
  term_id term;
};

/// [{"name":..., "term":...}, ...], for statements on several terms.
std::string to_json(std::span<name_and_term const>);
/// The same in parts. The caller adds the "}" of an entry.
void begin_entry(std::string& entries, std::string_view name, term_id const&);
std::string in_brackets(std::string entries);

/// An upper bound of its bytes in that list.
std::size_t room_for(name_and_term const&) noexcept;

/// Sessions, where the database shows them.
using waiters_by_name = std::unordered_map<std::string, std::vector<waiter_info>>;

struct rows_wanted {
  bool idle = false;  ///< also rows without a term
  bool done = false;  ///< also records
  std::chrono::milliseconds held_longer_than{0};
  std::string like = "%";  ///< for LIKE, with ESCAPE '|'
  std::string from{};      ///< the first name
  std::string to{};        ///< the last name
  std::int64_t most = 1000;
};

/// `after`: only later terms of the name `from`.
struct permits_wanted {
  std::chrono::milliseconds held_longer_than{0};
  std::string like = "%";
  std::string from{};
  std::string after{};
  std::int64_t most = 1000;
};

struct term_state {
  term_id term;
  bool revoked = false;
  bool hard_limit_reached = false;
};

class term_rows {
 public:
  enum class table { locks, permits };
  explicit term_rows(backend::statement_book const& book, table which = table::locks)
      : book_(book), table_(which) {}

  bool one_for_each_name() const noexcept { return table_ == table::locks; }

  /// Of several rows the one that expires first.
  std::optional<term_row> read(backend::connection&, std::string const& name, boot_time_point deadline) const;
  std::optional<term_row> find(backend::connection&, std::string const& name, boot_time_point deadline) const;
  /// Sorted by name.
  std::vector<term_row> list(backend::connection&, rows_wanted const&, boot_time_point deadline) const;
  /// The last name of so many rows from `from` on; empty if there are none.
  std::optional<std::string> list_end(backend::connection&, std::string const& from, std::int64_t rows,
                                      boot_time_point deadline) const;
  /// Sorted by name and term, with their units.
  std::vector<term_row> list_permits(backend::connection&, permits_wanted const&,
                                     boot_time_point deadline) const;

  /// Of the names that are held. @throws error, also without the right to see waiters
  waiters_by_name waiters(backend::connection&, std::span<std::string const> names,
                          boot_time_point deadline) const;
  /// Whose open transactions have the rows locked. @throws error, also without the right to see it
  waiters_by_name lockers(backend::connection&, std::span<std::string const> names,
                          boot_time_point deadline) const;

  /// In the order of the argument; empty where a name has no row.
  std::vector<std::optional<term_row>> read_all(backend::connection&, std::span<name_and_term const>,
                                                boot_time_point deadline) const;

  /// For a row that can neither be read nor inserted. @throws error(errc::access_denied) if row-level
  /// security hides rows from this role: the name might be free
  void refuse_if_hidden(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// `durable`: also if the machine crashes. @return the terms that were prolonged
  std::vector<term_id> renew(backend::connection&, std::span<name_and_term const>, boot_time_point deadline,
                             bool durable = false) const;
  std::vector<term_state> check(backend::connection&, std::span<name_and_term const>,
                                boot_time_point deadline) const;

  std::optional<term_state> check(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// Whether the term is there, and a transaction has locked its row.
  bool is_locked(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// The sessions that have the row locked, for people; empty if the database does not show them. @throws
  /// error if the session must be closed
  std::string who_locks(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// @return false if the term is gone, revoked, or at its hard limit.
  bool extend(backend::connection&, name_and_term const&, std::chrono::milliseconds,
              boot_time_point deadline) const;

  /// @return false if the term is gone
  bool set_note(backend::connection&, name_and_term const&, std::string const& note,
                boot_time_point deadline) const;

  /// Makes a record durable by a further commit, by the record's term (lib/doc/once.md). @return false if it
  /// is gone
  bool keep_record(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// Releases the term, but until `at_least` after the take the row has one that no process knows. @return
  /// false if the term is gone
  bool release_at_least(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                        boot_time_point deadline) const;
  /// The same, unless that time is over. @return false then, and if the term is gone
  bool release_until(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                     boot_time_point deadline) const;

  /// Without a term: all permits of the name. @return false if there is none
  bool revoke(backend::connection&, name_and_term const&, revoke_mode, boot_time_point deadline) const;

 private:
  std::vector<term_id> lock_and_renew(backend::connection&, std::string const& wanted,
                                      boot_time_point deadline) const;
  backend::statement const& at(char const* statement, bool durable = false) const;
  void add_units(backend::connection&, std::string const& name, std::span<term_row>,
                 boot_time_point deadline) const;

  backend::statement_book const& book_;
  table table_;
};

struct term_tables {
  explicit term_tables(backend::statement_book const& book)
      : locks(book), permits(book, term_rows::table::permits) {}
  term_rows const& of(rowlock::strategy s) const noexcept { return traits(s).counted ? permits : locks; }

  term_rows const locks;
  term_rows const permits;
};

}  // namespace rowlock::strategies

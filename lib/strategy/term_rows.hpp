#pragma once
// What all strategies whose lock is a row of rowlock_locks have in common: reading rows, and statements that
// name a term. Isolation: autocommit at READ COMMITTED; see lib/sql/<dialect>/lock.sql for who may come in
// between.

#include <chrono>
#include <optional>
#include <rowlock/types.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::strategies {

/// A row as it was read.
struct term_row {
  std::string name;
  term_id term;  ///< empty: free
  std::int64_t renewals = 0;
  std::chrono::milliseconds ttl{0};
  rowlock::takeover takeover = takeover::clock;
  holder_info holder;
  bool hard_limit_reached = false;
  /// Why the row can't be read whole: a later version, or a person, wrote something into it. What could be
  /// read is there; times are as near to the row's as possible.
  std::string unreadable;
  /// takeover::clock: how long the term can last at most from a change on; empty if the program that took it
  /// does not write this.
  std::optional<std::chrono::milliseconds> longest{};

  /// Whether it is free, or its term is over by the database's clock and may be taken for that.
  bool takeable() const noexcept;

  /// How long the row must be unchanged before its term may be taken although the clock does not say that it
  /// is over; empty: it may not be taken in this way. For takeover::clock it is set only while the expiry is
  /// further away than this term can have set it, that is, if the clock went back (C5, C57).
  std::optional<std::chrono::milliseconds> must_be_silent_for() const;
};

struct name_and_term {
  std::string name;
  term_id term;
};

/// As the statements on several terms take them: [{"name":..., "term":...}, ...].
std::string to_json(std::span<name_and_term const>);
/// The same by pieces: an entry's beginning, which more may follow in before its "}"; and, at last, the list.
void begin_entry(std::string& entries, std::string_view name, term_id const&);
std::string in_brackets(std::string entries);

/// How many bytes of a renewal's statement it takes, at most.
std::size_t room_for(name_and_term const&) noexcept;

/// For each held lock of which the database tells it: the sessions that wait.
using waiters_by_name = std::unordered_map<std::string, std::vector<waiter_info>>;

/// Which rows term_rows::list() returns.
struct rows_wanted {
  bool idle = false;  ///< also those without a term
  bool done = false;  ///< also records that work is done
  std::chrono::milliseconds held_longer_than{0};
  std::string like = "%";  ///< for LIKE, with ESCAPE '|'
  std::string from{};      ///< this name and those behind it,
  std::string to{};        ///< up to this one
  std::int64_t most = 1000;
};

/// The same of term_rows::list_permits(): of the name `from` those behind the term `after`.
struct permits_wanted {
  std::chrono::milliseconds held_longer_than{0};
  std::string like = "%";
  std::string from{};
  std::string after{};
  std::int64_t most = 1000;
};

/// What lock_check says of a term that is still in its row.
struct term_state {
  term_id term;
  bool revoked = false;
  bool hard_limit_reached = false;
};

/// Of one table: rowlock_locks, or rowlock_permits, where a name may have several rows.
class term_rows {
 public:
  enum class table { locks, permits };
  explicit term_rows(backend::statement_book const& book, table which = table::locks)
      : book_(book), table_(which) {}

  bool one_for_each_name() const noexcept { return table_ == table::locks; }

  /// Of several rows the one that ends first.
  /// @throws error(errc::schema_new) if this version doesn't know the row's strategy or takeover. Times that
  /// can't be read are no error: the statements decide by the row, not by what is read here.
  std::optional<term_row> read(backend::connection&, std::string const& name, boot_time_point deadline) const;
  /// The same, but fails for no row: see term_row::unreadable.
  std::optional<term_row> find(backend::connection&, std::string const& name, boot_time_point deadline) const;
  /// In the order of their names. Fails for no row, either.
  std::vector<term_row> list(backend::connection&, rows_wanted const&, boot_time_point deadline) const;
  /// The last name of so many rows from this one on; empty if there are none.
  std::optional<std::string> list_end(backend::connection&, std::string const& from, std::int64_t rows,
                                      boot_time_point deadline) const;
  /// In the order of their names and terms, with their units. Fails for no row, either.
  std::vector<term_row> list_permits(backend::connection&, permits_wanted const&,
                                     boot_time_point deadline) const;

  /// For those of these names that are held. @throws error, also if this user may not see who waits
  waiters_by_name waiters(backend::connection&, std::span<std::string const> names,
                          boot_time_point deadline) const;

  /// As read(), for several names; empty for those that have no row.
  std::vector<std::optional<term_row>> read_all(backend::connection&, std::span<name_and_term const>,
                                                boot_time_point deadline) const;

  /// For a row that can neither be read nor inserted. @throws error(errc::access_denied) if row-level
  /// security hides rows from this role: this does not mean that somebody holds the lock
  void refuse_if_hidden(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// Prolongs many terms in one statement. @return those that were: the others are locked, revoked, at their
  /// hard limit, or lost; check() tells.
  std::vector<term_id> renew(backend::connection&, std::span<name_and_term const>,
                             boot_time_point deadline) const;
  std::vector<term_state> check(backend::connection&, std::span<name_and_term const>,
                                boot_time_point deadline) const;

  /// Of a term that is still in its row.
  std::optional<term_state> check(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// Whether a transaction has locked the row of a term that is still there. Waits for none, but where
  /// whoever writes locks the database.
  bool is_locked(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// Which sessions have the row of a name locked, for people; empty if the database does not tell.
  /// @throws error if the session is of no use any more
  std::string who_locks(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// @return false if the term is not there, revoked, or at its hard limit
  bool extend(backend::connection&, name_and_term const&, std::chrono::milliseconds,
              boot_time_point deadline) const;

  /// @return false if the term is not there
  bool set_note(backend::connection&, name_and_term const&, std::string const& note,
                boot_time_point deadline) const;

  /// Of a record that work is done, by the record's own term: a write behind the commit that made it, which
  /// is kept where that one was not, perhaps, although it can be read. Waits for the row, a second at most.
  /// @return false if the record is not there
  bool keep_record(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// Gives the term back, but until `at_least` after it was taken the row keeps a term that nobody knows.
  /// @return false if the term is not there any more
  bool release_at_least(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                        boot_time_point deadline) const;
  /// The same, but does nothing if that time is over. @return false then, and if the term is not there
  bool release_until(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                     boot_time_point deadline) const;

  /// Of permits without a term: all of the name. @return false if it is not there
  bool revoke(backend::connection&, name_and_term const&, revoke_mode, boot_time_point deadline) const;

 private:
  std::vector<term_id> lock_and_renew(backend::connection&, std::string const& wanted,
                                      boot_time_point deadline) const;
  backend::statement const& at(char const* statement) const;
  /// To permits that were read.
  void add_units(backend::connection&, std::string const& name, std::span<term_row>,
                 boot_time_point deadline) const;

  backend::statement_book const& book_;
  table table_;
};

/// Both tables that terms are in.
struct term_tables {
  explicit term_tables(backend::statement_book const& book)
      : locks(book), permits(book, term_rows::table::permits) {}
  /// Where the terms of a strategy are.
  term_rows const& of(rowlock::strategy s) const noexcept { return traits(s).counted ? permits : locks; }

  term_rows const locks;
  term_rows const permits;
};

}  // namespace rowlock::strategies

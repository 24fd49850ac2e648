#pragma once
// What all strategies have in common: how a lock is taken, given back and described. lib/holding and
// lib/manager know who holds it then, until when, and on which session.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

/// For an attempt that waits in the server: how it waits.
struct server_wait {
  bool only_look = false;  ///< do not wait
  std::stop_token stop;
  std::chrono::nanoseconds reply_timeout;  ///< for each reply of the server
  /// A further session, for as long as the caller keeps it.
  std::function<std::unique_ptr<backend::connection>()> another_session;
};

/// Of a permit: how much is to be taken, and of what.
struct wanted_permit {
  std::int64_t units = 1;
  std::optional<std::int64_t> limit{};  ///< that the taker was told; empty: the one that was set for the name
  /// The one that this is to replace, if it is granted: it does not count. If it is not there any more, or is
  /// revoked, nothing is granted.
  term_id replaces{};
  std::int64_t replaced_units = 0;  ///< of that one
  /// Under which it says what it waits for: the same for all attempts of a call.
  std::string intent{};
  enum class place {
    in_line,      ///< or not: it obeys whoever is first
    first,        ///< of the line: it says what it waits for, and obeys nobody
    without_line  ///< there is none: it says so now and then
  } where = place::in_line;
};

/// Of a lock that several databases grant by majority: lib/doc/quorum.md.
struct wanted_vote {
  std::string epoch_id{};               ///< in which the database must vote
  std::optional<std::int64_t> token{};  ///< that others have granted; empty: this is the first
  std::string former{};                 ///< the term that was had there before; it must not have been revoked
};

struct take_request {
  std::string name;
  term_id term;  ///< a new one for every attempt, because the outcome of the last one may not be known
  owner_id owner;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds hard_limit{0};  ///< 0: none
  rowlock::takeover takeover = takeover::clock;
  bool fencing = true;
  std::string note;
  bool look_first = false;  ///< the name was busy a moment ago: reading disturbs the holder less than trying
  /// For strategies that own their session; null for the others.
  server_wait const* wait = nullptr;
  /// How many tokens to draw at once: for owners that come after this one without asking the database. Not
  /// more than most_tokens().
  int tokens = 1;
  wanted_permit permit{};  ///< for strategies that count
  wanted_vote vote{};      ///< for the strategy whose locks several databases grant
};

/// The exact term that is to be replaced although it has not expired by the clock.
struct superseded {
  term_id term;
  std::optional<std::int64_t> renewals;  ///< if given: only if the row still has this number
};

struct granted {
  fencing_token token;
  int tokens = 1;            ///< that were drawn: `token` is the lowest
  bool long_unused = false;  ///< was_used() is to be called once it was given back
};

/// What stood in the way.
struct refused {
  std::optional<term_row>
      row{};               ///< as it was read; empty if rows came and went too quickly, or nothing tells
  bool by_nobody = false;  ///< a transaction was in the way, and nobody holds the name
  /// Where there is no line: others keep away for half a second at most, for whoever was refused.
  bool waited_for = false;
};

using outcome = std::variant<granted, refused>;

/// One of several names that are to be taken together.
struct wanted_lock {
  std::string name;
  term_id term;                          ///< a new one for every attempt, as in take_request
  std::optional<superseded> old{};       ///< what this one is to replace
  std::optional<std::int64_t> thread{};  ///< of its owner, if it is not the request's
};

/// All of them were: their tokens, in the order in which they were wanted.
struct all_granted {
  std::vector<fencing_token> tokens;
};

/// None of them was. `rows`: as they were read afterwards, in the same order; empty where there is none. If
/// all of them can be taken, a transaction had one of them locked.
struct all_refused {
  std::vector<std::optional<term_row>> rows;
};

using outcome_for_all = std::variant<all_granted, all_refused>;

struct given_back {
  bool was_there = false;    ///< the term
  bool others_wait = false;  ///< at the name's wait queue, as far as the statement tells
};

/// That the work for which a term was taken is done.
struct record_of_done {
  name_and_term which;
  /// The record's own term: a new one, but the same for each try, by which a record whose reply was lost is
  /// known.
  term_id as;
  std::chrono::milliseconds keep_for{0};
  std::string result;
};

/// Names from one to another, both included.
struct name_range {
  std::string from;
  std::string to;
  /// If it is not 0, only what is known to be held for that long.
  std::chrono::milliseconds held_longer_than{0};
};

class locking_strategy {
 public:
  virtual ~locking_strategy() = default;
  locking_strategy(locking_strategy const&) = delete;
  locking_strategy& operator=(locking_strategy const&) = delete;

  /// One attempt, with as many statements as it needs. `deadline`: for all replies, or for the wait in the
  /// server, if there is one. `sent_at` is set before the granting statement is sent: trust counts from then.
  /// @throws error(errc::strategy_mismatch) and what connection::execute throws. After errc::in_doubt the
  /// term may have been granted, or may still be granted; only strategies whose terms expire throw it.
  virtual outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
                       boot_time_point deadline, boot_time_point& sent_at) const = 0;

  /// `at_least`: until then after it was taken the name stays taken.
  /// @throws error; where the strategy owns its session, the lock is gone with it
  virtual given_back give_back(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                               boot_time_point deadline) const = 0;

  /// As give_back() without `at_least`, on the session that stands at the wait queue of the name, which it
  /// leaves behind it: see backend::connection::execute_and_leave_queue(). Only for locks that have an
  /// expiry.
  /// @throws error as give_back() does
  virtual given_back give_back_at_queue(backend::connection&, name_and_term const&,
                                        boot_time_point deadline) const;

  /// How many locks take_all() can take; 1 where it can't.
  virtual std::size_t most_at_once() const noexcept { return 1; }

  /// One attempt to take several locks, all or none. `how` is for each of them, but for its name and term.
  /// `wanted`: from 1 to most_at_once(), in the order of their names, none twice. Waits for no row: if a
  /// transaction has one of them locked, the attempt is refused. `sent_at`: as in take().
  /// @throws error as take() does; errc::unsupported where most_at_once() is 1. After errc::in_doubt all
  /// terms may have been granted, or may still be granted
  virtual outcome_for_all take_all(backend::connection&, take_request const& how,
                                   std::span<wanted_lock const> wanted, boot_time_point deadline,
                                   boot_time_point& sent_at) const;

  /// One attempt for each of several locks that have nothing to do with each other, as take_all() otherwise.
  /// @return in the order of `wanted` what was granted; nothing for those that have to be asked for by
  /// themselves: busy, absent, locked by a transaction, of another strategy
  virtual std::vector<std::optional<granted>> take_each(backend::connection&, take_request const& how,
                                                        std::span<wanted_lock const> wanted,
                                                        boot_time_point deadline,
                                                        boot_time_point& sent_at) const;

  /// Gives back what is there and not locked by others, waiting for no row. @return what was given back, in
  /// the order of the terms, which is that of their names. The others have to be given back one by one.
  /// @throws error; after errc::in_doubt any of them may have been given back
  virtual std::vector<given_back> give_back_all(backend::connection&, std::span<name_and_term const>,
                                                boot_time_point deadline) const;

  /// Ends the term by a record that its work is done. Waits for the row, a second at most.
  /// @return false if neither the term nor this record is there
  /// @throws error; errc::unsupported if the traits say that there are no such records. After errc::in_doubt
  /// it may have been recorded, or may yet be: to be tried again
  virtual bool record(backend::connection&, record_of_done const&, boot_time_point deadline) const;

  /// One of `terms` whose take's reply was lost, if it was granted, as it is in its row; or whatever else is
  /// in the name's row; empty if there is none.
  virtual std::optional<term_row> find_doubtful(backend::connection&, std::string const& name,
                                                std::span<term_id const> terms,
                                                boot_time_point deadline) const;

  /// How many tokens one take can draw.
  virtual int most_tokens() const noexcept { return 1; }

  /// After give_back(): see granted::long_unused.
  virtual void was_used(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// On the session that holds the lock. @throws error if it has ended
  virtual void ping(backend::connection&, boot_time_point deadline) const;

  struct held {
    std::string name;
    holder_info by;  ///< owner and acquired_at as far as the server tells them
  };
  /// Who holds which of these names now, where the rows do not tell.
  virtual std::vector<held> holders(backend::connection&, name_range const&, boot_time_point deadline) const;
  /// Of one name. Empty if nobody does.
  std::optional<holder_info> holder(backend::connection&, std::string const& name,
                                    boot_time_point deadline) const;

 protected:
  locking_strategy() = default;
};

}  // namespace rowlock::strategies

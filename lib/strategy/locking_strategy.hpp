#pragma once
// The interface of all strategies: how a lock is taken, released and described. lib/holding and lib/manager
// know who holds it, and for how long.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "strategy/quorum_record.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

/// How an attempt waits in the server.
struct server_wait {
  bool only_look = false;  ///< do not wait
  std::stop_token stop;
  std::chrono::nanoseconds reply_timeout;  ///< per reply of the server
  /// Opens one more session.
  std::function<std::unique_ptr<backend::connection>()> another_session;
};

/// The permit that a take asks for.
struct wanted_permit {
  std::int64_t units = 1;
  std::optional<std::int64_t> limit{};  ///< of the taker; empty: the stored limit
  /// The permit to replace. It does not count. If it is gone or revoked, nothing is granted.
  term_id replaces{};
  std::int64_t replaced_units = 0;
  /// The id of its intent, the same for all attempts of a call.
  std::string intent{};
  enum class place {
    in_line,      ///< obeys the first waiter's intent
    first,        ///< writes an intent, and obeys none
    without_line  ///< there is no wait queue. Writes an intent now and then
  } where = place::in_line;
};

struct take_request {
  std::string name;
  term_id term;  ///< a new one for each attempt, because the last outcome can be unknown
  owner_id owner;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds hard_limit{0};  ///< 0: none
  rowlock::takeover takeover = takeover::clock;
  bool fencing = true;
  std::string note;
  bool look_first = false;  ///< the name was just busy. A read disturbs the holder less than a try
  /// For strategies that own their session, else null.
  server_wait const* wait = nullptr;
  /// How many tokens to draw, for this owner and its successors. At most most_tokens().
  int tokens = 1;
  wanted_permit permit{};  ///< if the strategy counts
  wanted_vote vote{};      ///< if the strategy votes
  /// The lock can outlive its process, and so must survive a crash of the database's machine.
  bool durable = false;
};

/// A term to replace before its expiry.
struct superseded {
  term_id term;
  std::optional<std::int64_t> renewals{};  ///< if set, the row must still have this number
  std::int64_t incarnation = 0;            ///< with renewals: of the database; see quarantine.hpp
};

struct granted {
  fencing_token token;
  int tokens = 1;            ///< drawn. `token` is the lowest
  bool long_unused = false;  ///< call was_used() after the release
};

struct refused {
  std::optional<term_row> row{};  ///< as read. Empty if rows changed too quickly, or no statement shows it
  bool by_nobody = false;         ///< a transaction was in the way. The name has no holder
  /// Without a wait queue: the intent is written, and other takers obey it for half a second at most.
  bool waited_for = false;
};

using outcome = std::variant<granted, refused>;

/// One of several names to take together.
struct wanted_lock {
  std::string name;
  term_id term;                          ///< a new one for each attempt
  std::optional<superseded> old{};       ///< the term to replace
  std::optional<std::int64_t> thread{};  ///< of the owner, if not the request's
};

/// The tokens are in the order of the wanted locks.
struct all_granted {
  std::vector<fencing_token> tokens;
};

/// The rows were read afterwards. If all are takeable, a transaction had one locked.
struct all_refused {
  std::vector<std::optional<term_row>> rows;
};

using outcome_for_all = std::variant<all_granted, all_refused>;

struct given_back {
  bool was_there = false;    ///< the term was in its row
  bool others_wait = false;  ///< in the wait queue, if the statement shows it
};

/// A record that the term's work is done.
struct record_of_done {
  name_and_term which;
  /// The record's own term, the same for each try: so a record whose reply was lost is recognised.
  term_id as;
  std::chrono::milliseconds keep_for{0};
  std::string result;
};

/// Both ends are included.
struct name_range {
  std::string from;
  std::string to;
  /// If not 0: only locks known to be held for so long.
  std::chrono::milliseconds held_longer_than{0};
};

class locking_strategy {
 public:
  virtual ~locking_strategy() = default;
  locking_strategy(locking_strategy const&) = delete;
  locking_strategy& operator=(locking_strategy const&) = delete;

  /// One attempt, by as many statements as it needs. `deadline`: for all replies, or for the wait in the
  /// server. `sent_at` is set before the granting statement is sent, because trust counts from then.
  /// @throws error(errc::strategy_mismatch), and as connection::execute(). After errc::in_doubt the term
  /// might be granted, now or later. Only strategies with an expiry throw that.
  virtual outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
                       boot_time_point deadline, boot_time_point& sent_at) const = 0;

  /// `at_least`: so long after its take the name stays taken.
  /// @throws error. Then a lock that owns its session has ended.
  virtual given_back give_back(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                               boot_time_point deadline) const = 0;

  /// As give_back() without `at_least`, on the session that has the queue place, which it leaves afterwards:
  /// see backend::connection::execute_and_leave_queue(). Only for locks with an expiry.
  /// @throws error as give_back() does
  virtual given_back give_back_at_queue(backend::connection&, name_and_term const&,
                                        boot_time_point deadline) const;

  /// The limit of take_all(); 1: unsupported.
  virtual std::size_t most_at_once() const noexcept { return 1; }

  /// One attempt to take several locks, all or none. `wanted`: from 1 to most_at_once(), sorted by name,
  /// without duplicates. `how` applies to each, except for name and term. Waits for no row: a locked row is a
  /// refusal.
  /// @throws error as take() does, and errc::unsupported if most_at_once() is 1
  virtual outcome_for_all take_all(backend::connection&, take_request const& how,
                                   std::span<wanted_lock const> wanted, boot_time_point deadline,
                                   boot_time_point& sent_at) const;

  /// As take_all(), but each lock by itself. @return the grants in the order of `wanted`. Empty ones (busy,
  /// absent, locked, of another strategy) need a take() each.
  virtual std::vector<std::optional<granted>> take_each(backend::connection&, take_request const& how,
                                                        std::span<wanted_lock const> wanted,
                                                        boot_time_point deadline,
                                                        boot_time_point& sent_at) const;

  /// Releases the terms, sorted by name, whose rows are not locked. The caller releases the rest one by one.
  /// @return the results in the same order
  /// @throws error. After errc::in_doubt each term might be released.
  virtual std::vector<given_back> give_back_all(backend::connection&, std::span<name_and_term const>,
                                                boot_time_point deadline) const;

  /// Ends the term by a record. Waits for the row, a second at most.
  /// @return false if neither the term nor this record is there
  /// @throws error, and errc::unsupported if the traits have no records. After errc::in_doubt: try again.
  virtual bool record(backend::connection&, record_of_done const&, boot_time_point deadline) const;

  /// After a lost reply to a take: the row of one of `terms`, if granted, else whatever row the name has.
  virtual std::optional<term_row> find_doubtful(backend::connection&, std::string const& name,
                                                std::span<term_id const> terms,
                                                boot_time_point deadline) const;

  /// The limit of take_request::tokens.
  virtual int most_tokens() const noexcept { return 1; }

  /// See granted::long_unused.
  virtual void was_used(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// For the session that holds the lock. @throws error if it has ended
  virtual void ping(backend::connection&, boot_time_point deadline) const;

  struct held {
    std::string name;
    holder_info by;  ///< owner and acquired_at if the server shows them
  };
  /// The holders of these names, for strategies whose rows do not show them.
  virtual std::vector<held> holders(backend::connection&, name_range const&, boot_time_point deadline) const;
  std::optional<holder_info> holder(backend::connection&, std::string const& name,
                                    boot_time_point deadline) const;

 protected:
  locking_strategy() = default;
};

}  // namespace rowlock::strategies

#pragma once
// The lowest layer that the rest of the library knows: run a named statement on some database.
// Nothing above it includes a driver's header.

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/statement_book.hpp"

namespace rowlock::backend {

/// A parameter or a column: SQL NULL, a 64-bit integer (booleans are 0 and 1), or text.
using value = std::variant<std::nullptr_t, std::int64_t, std::string>;

/// @throws error(errc::failed)
[[noreturn]] ROWLOCK_EXPORT void refuse_short_reply();

/// What came with a reply. A server that is broken, or none, may send fewer rows or columns than were asked
/// for: whoever takes one that is not there gets error(errc::failed), and never memory that is not ours.
template <class T>
class received : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  received() = default;
  received(std::vector<T> all) noexcept : std::vector<T>(std::move(all)) {}  // NOLINT(*-explicit-*)

  T const& at(std::size_t i) const {
    if (i >= this->size()) refuse_short_reply();
    return this->data()[i];
  }
  T& at(std::size_t i) {
    if (i >= this->size()) refuse_short_reply();
    return this->data()[i];
  }
  T const& operator[](std::size_t i) const { return at(i); }
  T& operator[](std::size_t i) { return at(i); }
  T const& front() const { return at(0); }
  T& front() { return at(0); }
  T const& back() const { return at(this->size() - 1); }
  T& back() { return at(this->size() - 1); }
};

using row = received<value>;
using row_list = received<row>;

inline bool is_null(value const& v) { return v.index() == 0; }
ROWLOCK_EXPORT std::int64_t as_int(value const& v);  ///< throws error(errc::failed) unless it is an integer
ROWLOCK_EXPORT std::string const& as_text(value const& v);  ///< throws error(errc::failed) unless it is text

/// A time that is further away can't be counted in nanoseconds, and is not meant.
inline constexpr std::chrono::milliseconds farthest = std::chrono::hours(24 * 365) * 200;
/// Microseconds since 1970; throws error(errc::failed) unless it is a time within `farthest`.
ROWLOCK_EXPORT std::chrono::system_clock::time_point as_time(value const& us);
/// Throws error(errc::failed) unless it is a time within `farthest`, forward or back.
ROWLOCK_EXPORT std::chrono::milliseconds as_duration(value const& ms);
/// A token that was granted; throws error(errc::failed) unless it is positive.
ROWLOCK_EXPORT fencing_token as_token(value const& v);

struct result {
  row_list rows;              ///< of a SELECT or RETURNING
  std::int64_t affected = 0;  ///< rows that an INSERT put there, or that an UPDATE or DELETE met
  /// A positive number that came with the reply of a statement that can't return rows: LAST_INSERT_ID(...).
  /// Empty also where the driver does not tell it: read it back then.
  std::optional<std::int64_t> number{};
};

/// One of several statements.
struct step {
  statement const& what;
  std::span<value const> parameters;
};

/// How long a session that holds row locks may be silent. Otherwise a host that is gone, or a program that
/// was stopped, would keep the locks for ever. [D4]
inline constexpr std::chrono::seconds longest_silence{30};

/// What only a driver knows about its session, for lib/diagnose. A member is empty if it is not known or does
/// not exist there.
struct session_facts {
  /// The server's process, as whoever answered the login told it: a pooler's, if there is one in between.
  std::optional<std::int64_t> server_process;
  bool pooled = false;  ///< through a pooler: each transaction may be on another session of the server's
  std::optional<std::string> encryption;  ///< protocol at this end of the wire; "": none
  bool gives_password = false;         ///< in clear, to a server that asks for it and has not proved its name
  std::optional<bool> leaves_machine;  ///< the wire is neither a Unix socket nor loopback
  /// How long a dead connection goes unnoticed while nothing is sent; 0: for ever.
  std::optional<std::chrono::seconds> keepalive;
  std::optional<std::uint64_t> file_system;  ///< of the database's file: statfs(2), f_type
  bool unflushed_by_choice = false;  ///< the source was told that commits need not survive a power cut
};

/// What came of a statement behind which a wait queue was left.
struct left_queue {
  result done{};
  /// At the wait queue, if that is known by other means than `done`.
  std::optional<bool> others_wait{};
};

enum class queue_entry {
  not_mine,    ///< its turn did not come in time
  was_free,    ///< nobody else was there
  in_its_turn  ///< others were there before it
};

/// One session of the database. Used by one thread at a time; may be handed from thread to thread. In a
/// forked child it refuses everything, and its destructor does not touch what belongs to the parent.
///
/// Errors: every call throws rowlock::error. errc::unreachable if certainly nothing was sent; errc::in_doubt
/// if the statement was sent and no reply came (connection ended, or deadline passed: the connection is given
/// up then); errc::row_locked if the statement gave up waiting for a row or file lock; errc::conflict after a
/// deadlock or serialization failure; read_only, schema_missing (no such table or column), storage_full,
/// access_denied (no grant), failed. usable() is false after unreachable, in_doubt, a server's read_only.
class ROWLOCK_EXPORT connection {
 public:
  virtual ~connection() = default;

  /// Runs one statement in autocommit (or inside a transaction that script() began) and returns once the
  /// commit was acknowledged. Waits for row locks for about a second at most, and for the reply until
  /// `deadline`.
  virtual result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) = 0;

  /// Only where dialect::at_once, or not dialect::returning: runs the steps in a transaction of their own at
  /// READ COMMITTED and commits it, all in one round trip. Each step's snapshot is younger than the end of
  /// the step before. If a step fails, those behind it are not run and nothing was done: its error is thrown.
  /// errc::in_doubt if the reply was lost, for COMMIT was sent with the rest. @return what each gave
  virtual std::vector<result> execute_at_once(std::span<step const>, boot_time_point deadline);

  /// Runs SQL text of several statements without parameters and drops what they return; for migrations.
  virtual void script(std::string_view sql, boot_time_point deadline) = 0;

  /// Begins a transaction and runs in it one statement that may wait for a row lock, in the server, until
  /// `deadline` or until `stop` is triggered; for the server's reply `reply_timeout` longer. Returns with the
  /// transaction open: the rows that came back are locked until script("ROLLBACK"), or as long as the session
  /// lives. errc::row_locked when the wait ended without them. If anything is thrown, the transaction is
  /// gone, and with it a lock that was granted at the last moment; if this can't be made sure otherwise, the
  /// session is closed. Nothing is ever in doubt: a session whose reply is lost has no lock
  /// (errc::unreachable). While the transaction is open the server ends the session if it hears nothing for
  /// longest_silence.
  virtual result wait_for_row(statement const&, std::span<value const> parameters, boot_time_point deadline,
                              std::chrono::nanoseconds reply_timeout, std::stop_token stop);

  /// @throws error(errc::unsupported) where a row lock is local to one node of several
  virtual void expect_row_locks() const {}

  /// The schema in which a client that connects as this session did finds a table whose name is given without
  /// a schema. If no schema has the table and `or_new`: the one that CREATE TABLE would use. The session's
  /// own search path may be another one: statements name the schema that was found. Empty if there is no such
  /// schema; "" where the database has no schemas.
  virtual std::optional<std::string> find_schema(std::string const& /*table*/, bool /*or_new*/,
                                                 boot_time_point /*deadline*/) {
    return std::string();
  }

  /// Whether this session can stand at wait queues: a wait queue is a lock that the server keeps for a
  /// session, with a line of its own, which is served in order. A session has one wait queue at most.
  virtual bool has_queues() const noexcept { return false; }
  /// Waits in line for the wait queue of `name` until `until`, or until `stop` is triggered (which may end
  /// the session). `who`: the owner_id::process of whoever would take the lock then; where the server tells
  /// who waits (lock_waiters), it is left there as long as the session is in the line or has the wait queue.
  virtual queue_entry enter_queue(table_names const& /*tables*/, std::string const& /*name*/,
                                  std::string const& /*who*/, boot_time_point /*until*/,
                                  std::chrono::nanoseconds /*reply_timeout*/, std::stop_token /*stop*/) {
    return queue_entry::not_mine;
  }
  /// @return whether others wait there, or one of them has it now
  virtual bool leave_queue(boot_time_point /*deadline*/) { return false; }
  /// As execute(), for what gives back the lock that was waited for here. The wait queue is left behind it,
  /// so that whoever is next finds the row free. In one round trip where dialect::leaves_queue_at_once. If
  /// anything is thrown, the wait queue may not have been left: to be closed then.
  virtual left_queue execute_and_leave_queue(statement const&, std::span<value const> parameters,
                                             boot_time_point deadline);
  /// Whether somebody waits at the wait queue of `name`, or has it, where that is known without the server:
  /// elsewhere the reply to the statement that gives the lock back tells.
  virtual bool is_waited_for(table_names const& /*tables*/, std::string const& /*name*/) noexcept {
    return false;
  }

  virtual bool usable() const noexcept = 0;

  /// usable(), and, as far as can be known without a round trip, the other end has not closed the connection
  /// while the session was idle (a restarted server).
  virtual bool alive() { return usable(); }

  /// Identity of the server or file that this session talks to, distinct for a copy of the database: see
  /// design note lib/doc/identity.md. Read once when the connection is made.
  virtual std::string const& server_identity() const noexcept = 0;

  /// Sends nothing. Precondition: usable().
  virtual session_facts facts() const { return {}; }

  /// Ends the session: usable() is false from then on.
  virtual void close() noexcept = 0;

 protected:
  /// @return as leave_queue(); empty if it failed: then the wait queue ends with its session
  std::optional<bool> leave_queue_or_close(boot_time_point deadline) noexcept;
};

/// Opens connections; thread-safe. Its constructor initializes the driver. So what the driver has registered
/// for the end of the process (std::atexit, static objects) runs after the handlers of objects that were made
/// from the source.
class ROWLOCK_EXPORT source {
 public:
  virtual ~source() = default;

  /// A new session at READ COMMITTED (or the engine's serialized equivalent), with durable commits and
  /// bounded lock waits. Throws error: unreachable, access_denied, too_many_connections, schema_missing (no
  /// such file or database).
  virtual std::unique_ptr<connection> connect(boot_time_point deadline) = 0;

  virtual dialect const& sql() const noexcept = 0;

  /// How many sessions for taking and giving back are of use to a manager that is not told: with two threads
  /// for each of them, and with 32 (lib/doc/performance.md).
  virtual int best_connections() const noexcept { return 2; }

  /// For messages: where this goes to, without any password.
  virtual std::string describe() const = 0;

  /// Whether this source certainly does not lead any more to the database of a session that had this
  /// server_identity() (its file was removed, replaced, or got another name). Locks that were held there are
  /// then lost. Looks without asking the database.
  virtual bool gone(std::string const& server_identity) const noexcept {
    (void)server_identity;
    return false;
  }

  /// Makes an empty database where the engine can (an SQLite file, with the mode that the umask leaves, and a
  /// WAL), for `migrate up`; elsewhere does nothing. Harmless if it exists.
  virtual void create_if_missing() {}

  /// Whether only connections of this source can reach the database, which is empty at first.
  virtual bool is_private() const noexcept { return false; }

  /// Whether connecting uses objects of the program's (a function, a pool), which may be destroyed as soon as
  /// a manager is.
  virtual bool uses_the_programs() const noexcept { return false; }
};

}  // namespace rowlock::backend

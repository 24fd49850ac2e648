#pragma once
// The lowest layer: it runs a named statement on a database. No layer above it includes a driver's header.

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

/// Rows or columns of a reply. A faulty or hostile server can send fewer than the statement asked for. Access
/// beyond the end throws error(errc::failed).
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
ROWLOCK_EXPORT std::int64_t as_int(value const& v);         ///< throws error(errc::failed) unless an integer
ROWLOCK_EXPORT std::string const& as_text(value const& v);  ///< throws error(errc::failed) unless text

/// The limit of a time from the database. A time further away does not fit into nanoseconds.
inline constexpr std::chrono::milliseconds farthest = std::chrono::hours(24 * 365) * 200;
/// Microseconds since 1970. Throws error(errc::failed) unless within `farthest`.
ROWLOCK_EXPORT std::chrono::system_clock::time_point as_time(value const& us);
/// Throws error(errc::failed) unless within `farthest`, either way.
ROWLOCK_EXPORT std::chrono::milliseconds as_duration(value const& ms);
/// A granted token. Throws error(errc::failed) unless positive.
ROWLOCK_EXPORT fencing_token as_token(value const& v);

struct result {
  row_list rows;              ///< of a SELECT or RETURNING
  std::int64_t affected = 0;  ///< inserted rows, or rows that an UPDATE or DELETE matched
  /// A positive LAST_INSERT_ID(...) of a statement that cannot return rows. Empty also if the driver hides
  /// it: read it back.
  std::optional<std::int64_t> number{};
};

/// One statement of several.
struct step {
  statement const& what;
  std::span<value const> parameters;
};

/// After this silence the server ends a session with row locks. Otherwise a lost host or a stopped program
/// would keep them for ever. [D4]
inline constexpr std::chrono::seconds longest_silence{30};

/// Facts about a session that only its driver knows, for lib/diagnose. Unknown or absent ones are empty.
struct session_facts {
  /// The process that answered the log-in: the server's, or a pooler's.
  std::optional<std::int64_t> server_process;
  bool pooled = false;                    ///< each transaction can have another session of the server
  std::optional<std::string> encryption;  ///< protocol at this end of the wire. "": none
  bool gives_password = false;            ///< in clear, to an unverified server that asks for it
  std::optional<bool> leaves_machine;     ///< neither a Unix socket nor loopback
  /// How long a dead, silent connection goes unnoticed. 0: for ever.
  std::optional<std::chrono::seconds> keepalive;
  std::optional<std::uint64_t> file_system;  ///< of the database's file: statfs(2), f_type
  bool flushes_less = false;                 ///< only what can outlive its process survives a power cut
};

struct left_queue {
  result done{};
  /// Whether sessions wait in the queue, if known by other means than `done`.
  std::optional<bool> others_wait{};
};

enum class queue_entry {
  not_mine,    ///< the turn did not come in time
  was_free,    ///< no other session in the queue
  in_its_turn  ///< other sessions were first
};

/// One session of the database. One thread at a time uses it. Threads may pass it on.
///
/// - In a forked child each call is refused, and the destructor leaves the parent's session alone.
/// - usable() is false after unreachable, in_doubt, or a server's read_only.
///
/// Errors, as rowlock::error:
/// - errc::unreachable: certainly nothing was done.
/// - errc::in_doubt: no reply before the deadline or the connection's end. The connection is given up.
/// - errc::row_locked: the statement gave up waiting for a row or file lock.
/// - errc::conflict: a deadlock or serialization failure.
/// - read_only, schema_missing (no such table or column), storage_full, access_denied (no grant), failed.
class ROWLOCK_EXPORT connection {
 public:
  virtual ~connection() = default;

  /// Runs one statement in autocommit, or inside a transaction that script() began. Returns after the commit
  /// was acknowledged. Waits at most about a second for row locks, and until `deadline` for the reply.
  virtual result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) = 0;

  /// Runs the steps in one READ COMMITTED transaction and commits it, in one round trip. Only where
  /// dialect::at_once, or not dialect::returning. Each step's snapshot is younger than the end of the step
  /// before. The first failed step ends the transaction: nothing is done, and its error is thrown.
  /// errc::in_doubt if the reply was lost, because COMMIT was sent with it. @return each step's result
  virtual std::vector<result> execute_at_once(std::span<step const>, boot_time_point deadline);

  /// Runs the steps in order, each in autocommit as by execute(), where possible in one round trip. For
  /// statements that may run twice. When one fails, its error is thrown, and those behind it may be done.
  virtual void execute_each(std::span<step const>, boot_time_point deadline);

  /// Runs SQL text of several statements without parameters, and drops their rows. For migrations.
  virtual void script(std::string_view sql, boot_time_point deadline) = 0;

  /// Begins a transaction and runs one statement in it, which may wait for a row lock in the server.
  /// - The wait ends at `deadline` or by `stop`. The reply can take `reply_timeout` longer.
  /// - On return the transaction is open. The rows stay locked until script("ROLLBACK") or the session's end.
  ///   Meanwhile the server ends the session after longest_silence.
  /// - After an exception the transaction is gone, with any lock. If need be, the session is closed.
  ///
  /// @throws error(errc::row_locked) if the wait ended without the rows. A lost reply is errc::unreachable,
  /// never in_doubt: a lost session has no lock.
  virtual result wait_for_row(statement const&, std::span<value const> parameters, boot_time_point deadline,
                              std::chrono::nanoseconds reply_timeout, std::stop_token stop);

  /// @throws error(errc::unsupported) where a row lock is local to one node of several
  virtual void expect_row_locks() const {}

  /// The schema in which this session's user finds `table` without naming one. If none has it and `or_new`:
  /// the schema that CREATE TABLE would use. Statements name this schema, because the session's search path
  /// can differ. Empty if there is none, "" where the database has no schemas.
  virtual std::optional<std::string> find_schema(std::string const& /*table*/, bool /*or_new*/,
                                                 boot_time_point /*deadline*/) {
    return std::string();
  }

  /// Whether this session can enter wait queues. A wait queue is a lock in the server, for which sessions
  /// wait in order. A session has one at most.
  virtual bool has_queues() const noexcept { return false; }
  /// Waits in the wait queue of `name` until `until`, or until `stop`, which can end the session. `who` is
  /// the owner_id::process of the later holder. Where the server reports waiters (lock_waiters), `who` stays
  /// visible as long as the queue place.
  virtual queue_entry enter_queue(table_names const& /*tables*/, std::string const& /*name*/,
                                  std::string const& /*who*/, boot_time_point /*until*/,
                                  std::chrono::nanoseconds /*reply_timeout*/, std::stop_token /*stop*/) {
    return queue_entry::not_mine;
  }
  /// @return whether other sessions wait there, or one has the queue now
  virtual bool leave_queue(boot_time_point /*deadline*/) { return false; }
  /// As execute(), for the lock's release. Then leaves the wait queue, so that the next waiter finds the row
  /// free. One round trip where dialect::leaves_queue_at_once. After an exception the session might still
  /// have the queue: close it.
  virtual left_queue execute_and_leave_queue(statement const&, std::span<value const> parameters,
                                             boot_time_point deadline);
  /// Whether a session waits for the queue of `name` or has it, if known without the server. Elsewhere the
  /// release's reply tells.
  virtual bool is_waited_for(table_names const& /*tables*/, std::string const& /*name*/) noexcept {
    return false;
  }

  virtual bool usable() const noexcept = 0;

  /// As usable(). Also false if the peer has closed the idle connection, as far as known without a round
  /// trip.
  virtual bool alive() { return usable(); }

  /// The server's or file's identity, different for a copy of the database: lib/doc/identity.md. Read when
  /// connecting.
  virtual std::string const& server_identity() const noexcept = 0;

  /// Sends nothing. Precondition: usable().
  virtual session_facts facts() const { return {}; }

  /// Ends the session: usable() is then false.
  virtual void close() noexcept = 0;

 protected:
  /// @return as leave_queue(), or empty if it failed and the session was closed
  std::optional<bool> leave_queue_or_close(boot_time_point deadline) noexcept;
};

/// Opens connections. Thread-safe. The constructor initializes the driver. So the driver's exit handlers
/// (std::atexit, static objects) run after those of objects made from the source.
class ROWLOCK_EXPORT source {
 public:
  virtual ~source() = default;

  /// A new session at READ COMMITTED (or the engine's serialized equivalent), with durable commits and
  /// bounded lock waits. Throws error: unreachable, access_denied, too_many_connections, schema_missing (no
  /// such file or database).
  virtual std::unique_ptr<connection> connect(boot_time_point deadline) = 0;

  virtual dialect const& sql() const noexcept = 0;

  /// A manager's default number of sessions for takes and releases (lib/doc/performance.md).
  virtual int best_connections() const noexcept { return 2; }

  /// The destination without a password, for messages.
  virtual std::string describe() const = 0;

  /// Whether this source certainly no longer leads to the database of this server_identity(): its file was
  /// removed, replaced, or got another name. Locks held there are lost. Does not ask the database.
  virtual bool gone(std::string const& server_identity) const noexcept {
    (void)server_identity;
    return false;
  }

  /// Makes an empty database for `migrate up`, where the engine can: an SQLite file with a WAL and the
  /// umask's mode. Harmless if it exists.
  virtual void create_if_missing() {}

  /// Whether only connections of this source can reach the database, which is empty at first.
  virtual bool is_private() const noexcept { return false; }

  /// Whether connecting uses the program's objects (a function). The program may destroy them as soon
  /// as a manager is destroyed.
  virtual bool uses_the_programs() const noexcept { return false; }
};

}  // namespace rowlock::backend

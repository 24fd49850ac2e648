-- Statements that run in the program's own transaction. SQLite has one writer at a time: once the first of them has run,
-- nobody else writes to the file until the transaction ends, and what this one reads is the newest. A transaction that
-- has read before, and whose snapshot is not the newest any more, can't write: SQLITE_BUSY_SNAPSHOT. lib/doc/guard.md.

-- Writes, because a read of an attached file is nothing that its commit depends on.
-- name: guard_require
UPDATE rowlock_locks SET renewals = renewals + 1
WHERE name = ?1 AND term = ?2 AND revoked = 0
RETURNING term

-- The same for a driver of the program's own (held_lock::guard_statements). Without the row its columns are NULL, which name may
-- not be: that error ends the whole transaction, so that COMMIT fails. ?3: the database.
-- name: guard_elsewhere
INSERT OR ROLLBACK INTO rowlock_locks
SELECT held.* FROM (SELECT 1) LEFT JOIN rowlock_locks AS held ON held.name = ?1 AND held.term = ?2 AND held.revoked = 0
  AND (SELECT database_id FROM rowlock_meta WHERE id = 1) = ?3
WHERE true
ON CONFLICT DO UPDATE SET renewals = renewals + 1

-- A plain read: with which strategy this transaction sees the name used. For a message.
-- name: guard_strategy
SELECT strategy FROM rowlock_locks WHERE name = ?1

-- name: guard_look
SELECT (SELECT term FROM rowlock_locks WHERE name = ?1 AND term = ?2), 'serializable'

-- The transaction is the lock, on all names; that it writes to the file of rowlock's tables, and not to another one, is
-- made sure of by an UPDATE that meets no row.
-- name: guard_wait
UPDATE rowlock_locks SET note = note WHERE name = ?1 AND strategy = 'row_lock'

-- name: guard_try
UPDATE rowlock_locks SET note = note WHERE name = ?1 AND strategy = 'row_lock'

-- As unique_take, with the time that guard_clock has told: ?8.
-- name: guard_insert
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, note, longest, longest_term)
VALUES (?1, 'unique_insert', ?2, 0, ?3, ?4, ?5, ?6, ?7, 'clock', ?8 / 1000, ?8 / 1000 + ?7, ?9, ?7, ?2)
ON CONFLICT DO NOTHING

-- The clock in microseconds since 1970, of which SQLite knows the milliseconds.
-- name: guard_clock
SELECT cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000

-- For a lock that several databases have granted (strategy quorum), whose rows are elsewhere: the highest token that was admitted here
-- for the name. Raises it to ?2, never lowers it.
-- name: guard_admit
INSERT INTO rowlock_admitted (name, token) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET token = max(rowlock_admitted.token, excluded.token)

-- Behind it, in the same transaction: what that is now.
-- name: guard_admitted
SELECT token FROM rowlock_admitted WHERE name = ?1

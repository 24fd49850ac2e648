-- Strategy once: a lease whose row may end as a record that the work is done. It is taken, renewed and given back by the
-- statements of lock.sql; here is only how it becomes a record. lib/sql/postgresql/once.sql says what the columns mean,
-- lib/doc/once.md who can come in between. SQLite has one writer at a time: nothing changes between what WHERE reads and what
-- SET writes.

-- name: once_record
UPDATE rowlock_locks SET
  term = ?3,
  owner_process = NULL,
  renewals = 0,
  ttl = ?4,
  takeover = 'clock',
  acquired_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?4,
  hard_until = NULL,
  revoked = 0,
  note = ?5,
  longest = ?4,
  longest_term = ?3
WHERE name = ?1 AND term = ?2 AND strategy = 'once'
RETURNING term

-- What can be read is in the file.
-- name: once_keep
SELECT term FROM rowlock_locks WHERE name = ?1 AND term = ?2

-- In the program's own transaction. ?6: the time, in microseconds since 1970, which the manager's own session has told.
-- name: guard_record
UPDATE rowlock_locks SET
  term = ?3,
  owner_process = NULL,
  renewals = 0,
  ttl = ?4,
  takeover = 'clock',
  acquired_at = ?6 / 1000,
  expires_at = ?6 / 1000 + ?4,
  hard_until = NULL,
  revoked = 0,
  note = ?5,
  longest = ?4,
  longest_term = ?3
WHERE name = ?1 AND term = ?2 AND strategy = 'once' AND revoked = 0
RETURNING term

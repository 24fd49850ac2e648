-- Strategy once, for MySQL and MariaDB: a lease whose row may end as a record that the work is done. It is taken, renewed and
-- given back by the statements of lock.sql; here is only how it becomes a record. lib/sql/postgresql/once.sql says what
-- the columns mean, lib/doc/once.md who can come in between.

-- On the manager's own session, in autocommit at READ COMMITTED. By the whole primary key: it waits for that row alone, for a
-- second at most, and then reads WHERE on the row's newest version. utc_timestamp(6) is from before that wait: the record is kept
-- for as long as it says from then. Assigned from left to right: the term last.
-- name: once_record
UPDATE rowlock_locks SET
  owner_process = NULL,
  renewals = 0,
  ttl = $4,
  takeover = 'clock',
  acquired_at = utc_timestamp(6),
  expires_at = utc_timestamp(6) + INTERVAL 1000 * $4 MICROSECOND,
  hard_until = NULL,
  revoked = 0,
  note = $5,
  longest = $4,
  longest_term = $3,
  term = $3
WHERE name = $1 AND term = $2 AND strategy = 'once'

-- As lib/sql/postgresql/once.sql has it. Always a change: where nothing changes, nothing is written, and no other server is
-- waited for.
-- name: once_keep
UPDATE rowlock_locks SET acquired_at = acquired_at + INTERVAL 1 MICROSECOND WHERE name = $1 AND term = $2

-- In the program's own transaction, behind guard_lock, which has locked the row or found it locked by another transaction, and
-- seen whether the snapshot is older than the lock. $6: the time, in microseconds since 1970, which the manager's own session
-- has told (guard_clock): the program may have set another one (SET timestamp, B42).
-- name: guard_record
UPDATE rowlock_locks SET
  owner_process = NULL,
  renewals = 0,
  ttl = $4,
  takeover = 'clock',
  acquired_at = '1970-01-01' + INTERVAL $6 MICROSECOND,
  expires_at = '1970-01-01' + INTERVAL $6 + 1000 * $4 MICROSECOND,
  hard_until = NULL,
  revoked = 0,
  note = $5,
  longest = $4,
  longest_term = $3,
  term = $3
WHERE name = $1 AND term = $2 AND strategy = 'once' AND revoked = 0

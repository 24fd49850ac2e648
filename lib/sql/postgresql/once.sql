-- Strategy once: a lease whose row may end as a record that the work is done. It is taken, renewed and given back by the
-- statements of lock.sql; here is only how it becomes a record. lib/doc/once.md says who can come in between, and how
-- a record is told from a term that runs: owner_process is null, and renewals is 0 (a term that `at_least` keeps has no
-- owner_process either, but has counted a renewal). The record has a term of its own, $3, which the caller made and keeps: if
-- the reply is lost, the row tells by it. No keeper knows that term, so nothing prolongs it. $4: how long the record is kept, in
-- milliseconds; `longest` says the same, so that a clock that goes back does not keep it for longer (C5).

-- On the manager's own session, in autocommit. By name and term: whoever has the name by now, a late record does not touch it.
-- First a taker, then this: the taker waits for the row, or is refused; or it has taken the expired row, and this finds no
-- such term. First this, then a taker that waited: it looks at the row's newest version, which has not expired. A renewal that
-- waits finds another term: its keeper looks for this one. Twice the same (the first one's reply was lost): the second finds
-- no row, and reads that the record is there. Flushed, as a take is: a record that a crash forgets makes the work run again.
-- name: once_record
UPDATE rowlock_locks SET
  term = $3,
  owner_process = NULL,
  renewals = 0,
  ttl = $4::bigint,
  takeover = 'clock',
  acquired_at = clock_timestamp(),
  expires_at = clock_timestamp() + $4::bigint * interval '1 millisecond',
  hard_until = NULL,
  revoked = false,
  note = $5,
  longest = $4::bigint,
  longest_term = $3
WHERE name = $1 AND term = $2 AND strategy = 'once'
  AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
RETURNING term

-- Of a record that is there, where it is not known whether the commit that made it is kept: its reply was lost, or it was the
-- program's. Others read what a session has committed as soon as its wait for a standby is ended, although no standby has it
-- (D2). This is a commit behind that one, and is waited for. $2: the record's own term; whoever has the name by now, it is left
-- alone. Nothing is decided by acquired_at.
-- name: once_keep
UPDATE rowlock_locks SET acquired_at = acquired_at + interval '1 microsecond'
WHERE name = $1 AND term = $2
RETURNING term

-- once_record in the program's own transaction, as guard_require has it (guard.sql, where it is said whose operators these are):
-- it waits for no row, and skips one that another transaction has locked. In force with COMMIT, together with the program's
-- data, and undone with it by ROLLBACK. Until then whoever would take the name over waits for the row, and sees it as it is
-- then. $6: the time, in microseconds since 1970, which the manager's own session has told (guard_clock).
-- name: guard_record
UPDATE rowlock_locks SET
  term = $3,
  owner_process = NULL,
  renewals = 0,
  ttl = $4::bigint,
  takeover = 'clock',
  acquired_at = timestamp with time zone 'epoch' OPERATOR(pg_catalog.+) ($6::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'),
  expires_at = timestamp with time zone 'epoch' OPERATOR(pg_catalog.+) ($6::bigint OPERATOR(pg_catalog.*) interval '1 microsecond')
    OPERATOR(pg_catalog.+) ($4::bigint OPERATOR(pg_catalog.*) interval '1 millisecond'),
  hard_until = NULL,
  revoked = false,
  note = $5,
  longest = $4::bigint,
  longest_term = $3
WHERE term OPERATOR(pg_catalog.=) $2 AND strategy OPERATOR(pg_catalog.=) 'once' AND (name, generation) OPERATOR(pg_catalog.=) (
  SELECT name, generation FROM rowlock_locks
  WHERE name OPERATOR(pg_catalog.=) $1 AND term OPERATOR(pg_catalog.=) $2 AND NOT revoked
    AND generation OPERATOR(pg_catalog.=) (
      SELECT generation FROM rowlock_locks WHERE name OPERATOR(pg_catalog.=) $1 ORDER BY generation DESC LIMIT 1)
  FOR UPDATE SKIP LOCKED)
RETURNING term

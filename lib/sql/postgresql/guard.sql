-- Statements that run in the program's own transaction, at whatever isolation level that has. Each runs in a savepoint of
-- ours, so that one that fails leaves the transaction usable. None waits for a row but guard_wait, guard_insert and guard_admit,
-- which wait as long as the program's own lock_timeout says. lib/doc/guard.md.
--
-- The search path is the program's, too, and is not changed. Others may have put operators and functions there that fit
-- better than the server's own, so each of those is named with its schema, here and where unique_set_token and meta_read
-- run on the program's connection; types are those that are the grammar's own words. [C12]

-- The lock's row, by name and term, locked in its newest version.
-- The sub-select looks for the highest generation by the key from its end: a row below that never counts, and an old snapshot costs
-- nothing (C92).
-- fragment: held_row
SELECT term FROM rowlock_locks
  WHERE name OPERATOR(pg_catalog.=) $1 AND term OPERATOR(pg_catalog.=) $2 AND NOT revoked
    /* of a lock */ AND generation OPERATOR(pg_catalog.=) (
      SELECT generation FROM rowlock_locks WHERE name OPERATOR(pg_catalog.=) $1 ORDER BY generation DESC LIMIT 1) /* end */
  FOR UPDATE
-- end

-- Locks the lock's row, by name and term: whoever would take it over waits for the end of the transaction. (FOR KEY SHARE would let
-- a takeover pass.) Nothing is written, so a guard costs no dead row, and no waiter takes it for a renewal.
-- Another transaction may have the row: a renewal, for a moment; a take that is going to be refused; another guard of the
-- same term. It is skipped then, and the caller looks again. Above READ COMMITTED a row that was changed since the
-- snapshot is error 40001, also where it was only renewed.
-- name: guard_require
<<held_row >> SKIP LOCKED

-- The same for a COMMIT that is sent behind it, before its answer is known: no row is an error, which keeps COMMIT from running.
-- (count(*), because a constant is divided when the statement is planned.)
-- name: at_once_guard
SELECT 1::bigint OPERATOR(pg_catalog./) pg_catalog.count(*) FROM (<<held_row >> SKIP LOCKED) AS guarded

-- The same for a driver of the program's own (held_lock::guard_statements), which has no session of the manager's to ask: waits for
-- a locked row, and no row is an error, which aborts the transaction. $3: the database. An autocommitted statement is recognized
-- if it came by the simple protocol: its transaction began with it. (The texts can't be cast; count(*) keeps them from being cast
-- when the statement is planned.)
-- name: guard_elsewhere
SELECT CASE
    WHEN pg_catalog.transaction_timestamp() OPERATOR(pg_catalog.=) pg_catalog.statement_timestamp()
      THEN CAST('rowlock: no transaction is open: BEGIN before. Rows: ' OPERATOR(pg_catalog.||) pg_catalog.count(*) AS bigint)
    WHEN pg_catalog.count(*) OPERATOR(pg_catalog.=) 0
      THEN CAST('rowlock: the lock is not held: roll back. Rows: ' OPERATOR(pg_catalog.||) pg_catalog.count(*) AS bigint)
    ELSE 1 END AS held
FROM (<<held_row >>) AS guarded
WHERE (SELECT database_id FROM rowlock_meta WHERE id OPERATOR(pg_catalog.=) 1) OPERATOR(pg_catalog.=) $3

-- A plain read: with which strategy this transaction sees the name used. For a message.
-- name: guard_strategy
SELECT strategy FROM rowlock_locks WHERE name OPERATOR(pg_catalog.=) $1 ORDER BY generation DESC LIMIT 1

-- The term $2 of $1, if this transaction sees it, and its isolation level.
-- name: guard_look
SELECT (SELECT term FROM rowlock_locks WHERE name OPERATOR(pg_catalog.=) $1 AND term OPERATOR(pg_catalog.=) $2),
  pg_catalog.current_setting('transaction_isolation')

-- At READ COMMITTED each statement after this one sees what the former owner has committed. Above, the section would read
-- what was before the lock: no row then, and nothing is locked.
-- name: guard_wait
SELECT name FROM rowlock_locks
WHERE name OPERATOR(pg_catalog.=) $1 AND strategy OPERATOR(pg_catalog.=) 'row_lock'
  AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' AND EXISTS <<pulse 0>>
FOR UPDATE

-- name: guard_try
SELECT name FROM rowlock_locks
WHERE name OPERATOR(pg_catalog.=) $1 AND strategy OPERATOR(pg_catalog.=) 'row_lock'
  AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' AND EXISTS <<pulse 0>>
FOR UPDATE SKIP LOCKED

-- As unique_take, with the time that guard_clock has told: $8.
-- name: guard_insert
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, note, longest, longest_term)
SELECT $1, 'unique_insert', $2, 0, $3, $4::bigint, $5, $6::bigint, $7::bigint, 'clock',
  timestamp with time zone 'epoch' OPERATOR(pg_catalog.+) ($8::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'),
  timestamp with time zone 'epoch' OPERATOR(pg_catalog.+) ($8::bigint OPERATOR(pg_catalog.*) interval '1 microsecond')
    OPERATOR(pg_catalog.+) ($7::bigint OPERATOR(pg_catalog.*) interval '1 millisecond'),
  $9, $7::bigint, $2
FROM <<pulse $7>> AS pulse
ON CONFLICT DO NOTHING

-- On the manager's session: the database's clock in microseconds since 1970.
-- name: guard_clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- For a lock that several databases have granted (strategy quorum), whose rows are elsewhere: the highest token that was admitted here
-- for the name. Raises it to $2, never lowers it. Waits for another transaction that has admitted one, as any INSERT does, and
-- decides by the newest version; above READ COMMITTED that is error 40001 if the other one has committed.
-- name: guard_admit
INSERT INTO rowlock_admitted AS a (name, token) VALUES ($1, $2::bigint)
ON CONFLICT (name) DO UPDATE SET token = greatest(a.token, excluded.token)

-- Behind it, in the same transaction, which has the row locked: what that is now.
-- name: guard_admitted
SELECT token FROM rowlock_admitted WHERE name OPERATOR(pg_catalog.=) $1

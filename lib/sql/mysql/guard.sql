-- Statements that run in the program's own transaction, at whatever isolation level that has, on the program's own session
-- with its settings. None reads the clock there: the program may have set another one (SET timestamp). lib/doc/guard.md.
--
-- InnoDB has two views of a row: locking reads and UPDATE see its newest version, plain reads, at REPEATABLE READ, what was
-- committed when the transaction read first. What the session's isolation level is can't be told by a variable (SET
-- TRANSACTION changes none), so that what follows does not depend on it.

-- First half of a guard: locks the row of $1 if it has the term $2, and tells whether plain reads see it with that term. If
-- not, the snapshot is older than the lock, and the section would read what a former owner has overwritten since.
-- The sub-select is a plain read: only a clause of its own would make it a locking one, or SERIALIZABLE. There it would wait
-- for a locked row, so it depends on l: then it is read only for a row that this transaction has locked already. (MariaDB
-- reads a sub-select that depends on nothing before it comes to l.) A row that another transaction has locked is skipped (a
-- renewal, a take that is going to be refused, another guard), and the caller looks again.
-- Where the row has another term, InnoDB keeps it locked all the same until the program's transaction ends, at READ COMMITTED, too: the
-- program is told that the lock is lost, and has to roll back, or the new owner can't renew.
-- name: guard_lock
SELECT (SELECT s.term FROM rowlock_locks AS s WHERE s.name = l.name AND s.term = l.term)
FROM rowlock_locks AS l FORCE INDEX (PRIMARY)
WHERE l.name = $1 AND l.term = $2 AND l.revoked = 0
FOR UPDATE SKIP LOCKED

-- Second half, on the row that is locked now: a change, because Galera certifies nothing less.
-- name: guard_require
UPDATE rowlock_locks SET renewals = renewals + 1
WHERE name = $1 AND term = $2 AND revoked = 0

-- guard_lock for a driver of the program's own (held_lock::guard_statements), which has no session of the manager's to ask, and reads
-- no answer: waits for a locked row, and a sub-select of two rows is an error where the row is missing, or plain reads don't see
-- it with that term. guard_require follows. $3: the database. MariaDB knows whether a transaction is open.
-- name: guard_elsewhere
SELECT IF(count((SELECT s.term FROM rowlock_locks AS s WHERE s.name = l.name AND s.term = l.term)) = 1, 1,
  (SELECT 1 UNION ALL SELECT 2)) AS held
FROM rowlock_locks AS l FORCE INDEX (PRIMARY)
WHERE l.name = $1 AND l.term = $2 AND l.revoked = 0
  AND (SELECT m.database_id FROM rowlock_meta AS m WHERE m.id = 1) = $3
  /*M! AND (@@in_transaction = 1 OR @@autocommit = 0) */
FOR UPDATE

-- A plain read: with which strategy this transaction sees the name used. For a message.
-- name: guard_strategy
SELECT strategy FROM rowlock_locks WHERE name = $1

-- The term $2 of $1, if this transaction sees it; the isolation level can't be told.
-- name: guard_look
SELECT (SELECT term FROM rowlock_locks WHERE name = $1 AND term = $2), NULL

-- Waits as long as the session's innodb_lock_wait_timeout says.
-- name: guard_wait
SELECT name FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE name = $1 AND strategy = 'row_lock' FOR UPDATE

-- name: guard_try
SELECT name FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE name = $1 AND strategy = 'row_lock' FOR UPDATE SKIP LOCKED

-- As unique_take, with the time that guard_clock has told: $8. Says 2, and adds to renewals, where there is a row: to be undone.
-- name: guard_insert
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, note, longest, longest_term)
VALUES ($1, 'unique_insert', $2, 0, $3, $4, $5, $6, $7, 'clock',
  '1970-01-01' + INTERVAL $8 MICROSECOND,
  '1970-01-01' + INTERVAL $8 + 1000 * $7 MICROSECOND,
  $9, $7, $2)
ON DUPLICATE KEY UPDATE renewals = rowlock_locks.renewals + 1

-- On the manager's session: the database's clock in microseconds since 1970.
-- name: guard_clock
SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))

-- For a lock that several databases have granted (strategy quorum), whose rows are elsewhere: the highest token that was admitted here
-- for the name. Raises it to $2, never lowers it. Waits for another transaction that has admitted one, as any INSERT does, and
-- decides by the newest version. A row that is there changes twice, to -token and back, also if the token is the same again:
-- Galera certifies nothing less (B7), and a higher token that another node has admitted would not stop this one's COMMIT. Nobody
-- sees what is in between, which this transaction has locked. Which of the two changes it is, the values say, and not the row: in one
-- that somebody has set to 0 the token would stay negative for ever, and below anything.
-- name: guard_admit
INSERT INTO rowlock_admitted (name, token) VALUES ($1, 0), ($1, $2)
ON DUPLICATE KEY UPDATE token = if(VALUES(token) = 0, -abs(rowlock_admitted.token), greatest(abs(rowlock_admitted.token), $2))

-- Behind it, in the same transaction, which has the row locked: what that is now. A locking read: a plain one may be older.
-- name: guard_admitted
SELECT token FROM rowlock_admitted FORCE INDEX (PRIMARY) WHERE name = $1 FOR UPDATE

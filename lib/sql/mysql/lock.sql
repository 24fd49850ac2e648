-- Statements on the lock's own row, for MySQL and MariaDB (InnoDB); the same names, parameters and columns as in the
-- other dialects. Every session runs them at READ COMMITTED, in autocommit or in a transaction of the library's own.
--
-- What InnoDB does, and what follows from it:
-- * A statement that changes the row of a name finds it by the whole primary key. If another transaction has the row, it
--   waits (one second: innodb_lock_wait_timeout) and then reads WHERE and SET on the row's newest version.
-- * utc_timestamp(6) is the time at which the statement began in the server, before that wait. So an expiry that is
--   compared with it is judged by an earlier moment (a row may be called busy that has just expired: never the other way
--   round), and one that is set from it counts from before the grant; trust counts from before the statement was sent, which
--   is earlier still. And a statement that waited must not move an expiry back: greatest().
-- * now() and TIMESTAMP would depend on the session's time zone, and jump with its summer time.
-- * A sub-select on a table that is found by a constant key may be run before the statement waits (MariaDB reads such
--   tables while it plans). It must name the row that is being changed in its key: then it can't.
-- * SET lists of one table are assigned from left to right: what others still have to read is assigned last.
-- * There is no RETURNING. The one number that comes with an UPDATE's reply is that of LAST_INSERT_ID(expression), which is
--   the expression itself. It says something only if a row was met: without one, SET is not evaluated. A driver that does
--   not tell it has the token read back. Only the library's own sessions run such a statement: a program's
--   LAST_INSERT_ID() stays what it was (B23). Where somebody's trigger runs statements, the servers tell no
--   number, and the token is read back, too. (A token that such a trigger puts in place of ours is not in it: nobody may.)
-- * Rows met are counted (CLIENT_FOUND_ROWS), and each UPDATE here but lock_set_note changes what it meets, so that the
--   count is the same without that.

-- Takes a free row, or one whose term has expired by the clock ($13 null); or exactly the term $13, if it is still
-- there: if its renewals are still $14 (takeover::observed, and a term that a clock which went back keeps, C5:
-- lib/doc/lease.md); or ($14 null) if its explicit owner comes back and no operator has asked for it back (C33).
-- Two takers: the second waits, finds a term that has not expired, and meets no row. A taker and a renewal: whichever
-- has the row first; the taker behind it sees the new expiry, the renewal behind it another term.
-- A row that never had a term (token 0) also rises above the floor and the name's entry in rowlock_tokens. The reaper
-- raises the floor before it deletes the name's former row; a take that was waiting for that row goes on with the fresh
-- one, which somebody put there since, and must see the raised floor: so it is looked up once the row is there, by
-- id = 1 + the row's token, and the entry by the row's name.
-- $12: how many tokens are drawn at once, 0 for none. Every arm rises by that many, or the lowest of them would not be above
-- all that were ever drawn (C45): lib/doc/hand_on.md.
-- fragment: taking
UPDATE rowlock_locks AS l SET
  l.token = CASE WHEN $12 = 0 THEN l.token ELSE last_insert_id(greatest(
    l.token + $12,
    timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + $12 - 1,
    $12 + coalesce(<<known_base >>, 0)<<>>)) END,
  l.owner_host = $4,
  l.owner_pid = $5,
  l.owner_process = $6,
  l.owner_thread = $7,
  l.renewals = 0,
  l.ttl = $8,
  l.takeover = $9,
  l.acquired_at = utc_timestamp(6),
  l.expires_at = utc_timestamp(6) + INTERVAL 1000 * least($8, coalesce($10, $8)) MICROSECOND,
  l.hard_until = utc_timestamp(6) + INTERVAL 1000 * $10 MICROSECOND,
  l.revoked = 0,
  l.note = $11,
  l.longest = $8,
  l.longest_term = $3,
  l.term = $3
WHERE l.name = $1 AND l.strategy = $2
  AND CASE WHEN $13 IS NULL
        THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6))
        ELSE l.term = $13 AND CASE WHEN $14 IS NULL THEN l.revoked = 0 ELSE l.renewals = $14 AND $15 = <<known_base >> END END
  AND <<pulse $8 + 0 * l.token>> = <<known_base >>
-- end

-- Any row.
-- name: lock_take
<<taking ,
    CASE WHEN l.token = 0 THEN (
      SELECT $12 + greatest(m.token_floor,
        coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
      FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END>>

-- A row that has had a token, which keeps it above the floor: nearly each take, and two sub-selects less.
-- name: lock_next_take
<<taking >>
  AND NOT (l.token = 0 AND $12 > 0)

-- A free row for a name that has none, so that lock_take finds one. Never fails on a duplicate, and changes nothing then:
-- not IGNORE, which would hide every other problem (a name that was cut). It waits for a transaction that has the row,
-- as a take would. Says 1 either way.
-- name: lock_insert_free
INSERT INTO rowlock_locks (name, strategy, token, expires_at)
VALUES ($1, $2, 0, utc_timestamp(6))
ON DUPLICATE KEY UPDATE name = rowlock_locks.name

-- Whether rows may be hidden from this user: there is no such thing here.
-- name: lock_hidden
SELECT 0

-- A plain read: waits for nobody, and sees what was committed when it began.
-- (Of permits, of which a name may have several: the one that ends first.)
-- name: lock_read
SELECT name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  timestampdiff(MICROSECOND, '1970-01-01', acquired_at) AS acquired_us,
  CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), expires_at) / 1000) AS SIGNED) AS expires_in_ms,
  revoked, note, hard_until <= utc_timestamp(6) AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms
FROM rowlock_locks WHERE name = $1 ORDER BY expires_at LIMIT 1

-- The last name of the $2 rows from the name $1 on: where a part of the list ends, whatever of it is shown.
-- name: lock_list_end
SELECT max(w.name) FROM (SELECT name FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE name >= $1 ORDER BY name LIMIT $2) AS w

-- $7 rows of the names from $5 to $6 that are LIKE $4. $1: 0 for the held ones, 1 for idle rows too. $2: 1 for records that work
-- is done, too. $3: only what has been held for so many milliseconds, or 0.
-- name: lock_list
SELECT name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  timestampdiff(MICROSECOND, '1970-01-01', acquired_at) AS acquired_us,
  CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), expires_at) / 1000) AS SIGNED) AS expires_in_ms,
  revoked, note, hard_until <= utc_timestamp(6) AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms
FROM rowlock_locks FORCE INDEX (PRIMARY)
WHERE name >= $5 AND name <= $6 AND name LIKE $4 ESCAPE '|' AND (term IS NOT NULL OR $1 = 1)
  AND ($2 = 1 OR term IS NULL OR strategy <> 'once' OR owner_process IS NOT NULL OR renewals <> 0)
  AND ($3 = 0 OR (term IS NOT NULL AND acquired_at <= utc_timestamp(6) - INTERVAL 1000 * $3 MICROSECOND))
ORDER BY name LIMIT $7

-- Who waits for the locks among the names of $1 (a JSON list) that are held, at their wait queues (lib/backend/mysql/wait_queue.cpp):
-- each lock once with nulls, and once with
-- each session that waits. For people, who see a picture of one moment; nothing is decided by it. Who has the wait queue waits, too,
-- unless it has the mark of the row's owner, or of a permit's. The others are told by the process list, which shows a user without the right
-- PROCESS that user's own sessions. The anchors of row_lock are absent: who waits for a row is told to administrators only.
-- name: lock_waiters
WITH held AS (
  SELECT l.name, concat('rowlock_locks'', X''', hex(l.name), '''') AS key_text,
    is_used_lock(sha2(concat_ws('/', database(), 'rowlock_locks', l.name), 256)) AS has_queue,
    coalesce(is_used_lock(sha2(concat_ws('/', '', database(), 'rowlock_locks', l.owner_process, l.name), 256)),
      (SELECT max(is_used_lock(sha2(concat_ws('/', '', database(), 'rowlock_locks', p.owner_process, p.name), 256)))
        FROM rowlock_permits AS p WHERE p.name = l.name)) AS holder
  FROM (
    SELECT DISTINCT j.name
    FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$')) AS j) AS wanted
  STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
  WHERE (l.term IS NOT NULL AND l.strategy <> 'row_lock') OR l.strategy IN ('shared', 'semaphore'))
SELECT h.name, NULL, NULL, NULL FROM held AS h
UNION ALL
SELECT h.name, h.has_queue, substring_index(p.host, ':', 1), NULL
FROM held AS h LEFT JOIN information_schema.processlist AS p ON p.id = h.has_queue
WHERE h.has_queue IS NOT NULL AND NOT h.has_queue <=> h.holder
UNION ALL
SELECT h.name, p.id, substring_index(p.host, ':', 1), NULL
FROM held AS h JOIN information_schema.processlist AS p
  ON p.state = 'User lock' AND p.db = database() AND locate(h.key_text, p.info) > 0

-- $1: JSON [{"name":..., "term":...}, ...]. First half of a renewal, in its transaction: locks the rows that may be
-- renewed, in one order, and skips those that somebody else has locked (a guarded transaction, a taker), so that it waits
-- for nobody. Rows are found by the primary key, one for each name of the list, however small the table: no other name's
-- row is locked on the way. A row with another term is let go when the next one is read (READ COMMITTED); the last one of the list
-- stays locked until the transaction ends.
-- DISTINCT keeps the list a table of its own, to which FOR UPDATE does not apply (MySQL would refuse it). CONVERT:
-- the connector sends a long text as bytes.
-- name: lock_renew_due
SELECT l.name, l.term
FROM (
  SELECT DISTINCT j.name, j.term
  FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS j) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.term = wanted.term AND l.revoked = 0 AND (l.hard_until IS NULL OR l.hard_until > utc_timestamp(6))
FOR UPDATE SKIP LOCKED

-- Second half, for what the first half has locked. By name and term alone, never shortens, never passes the hard limit,
-- never prolongs a revoked row: the conditions again, because this statement must be right by itself.
-- name: lock_renew
UPDATE JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name AND l.term = wanted.term
SET
  l.expires_at = greatest(l.expires_at, least(
    utc_timestamp(6) + INTERVAL 1000 * l.ttl MICROSECOND,
    coalesce(l.hard_until, utc_timestamp(6) + INTERVAL 1000 * l.ttl MICROSECOND))),
  l.renewals = l.renewals + 1
WHERE l.revoked = 0 AND (l.hard_until IS NULL OR l.hard_until > utc_timestamp(6))

-- The rows of $1 (JSON as for lock_renew) that still have the term; a term that is missing is lost. A plain read: also while
-- somebody has the row locked.
-- name: lock_check
SELECT l.term, l.revoked, coalesce(l.hard_until <= utc_timestamp(6), 0) AS hard_limit_reached
FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.term = wanted.term

-- For takeover::observed the ttl grows along: takers watch the row for as long as that. `longest` grows always (C5, C57): an
-- expiry that this term has set is never further away than that, or the clock went back since.
-- name: lock_extend
UPDATE rowlock_locks SET
  expires_at = greatest(expires_at, least(
    utc_timestamp(6) + INTERVAL 1000 * $3 MICROSECOND,
    coalesce(hard_until, utc_timestamp(6) + INTERVAL 1000 * $3 MICROSECOND))),
  ttl = CASE WHEN takeover = 'observed' THEN greatest(ttl, $3) ELSE ttl END,
  longest = greatest(longest, $3),
  renewals = renewals + 1
WHERE name = $1 AND term = $2 AND revoked = 0 AND (hard_until IS NULL OR hard_until > utc_timestamp(6))

-- Changes the note of a term, for people and for those who watch an election. Who can come in between: a renewal changes other
-- columns, whichever of the two is first. A release, a take-over and a revocation by force leave another term in the row, or
-- none: if this waited behind one of them, WHERE is read on the row's newest version and meets nothing; if it was first, their
-- terms have notes of their own. A transaction that requires the lock has the row locked until its end: this waits for it, for
-- innodb_lock_wait_timeout. (The count is of rows met: the note may be the same as before.)
-- name: lock_set_note
UPDATE rowlock_locks SET note = $3 WHERE name = $1 AND term = $2

-- By name and term: whoever has the row by now, a late release does not touch it. (These servers can't be told that this
-- commit need not be flushed.)
-- The number that comes with the reply is 2 if somebody has the name's wait queue, which is a user lock, else 1. On the session that
-- has the wait queue itself this leaves it, and the mark beside it; the number is then 4 if somebody has it now, else 3. (The row is
-- locked before SET is evaluated, and others see it free a moment later. Whoever has the wait queue now, and takes the lock, waits for
-- the row until then, as behind any release.)
-- name: lock_release
UPDATE rowlock_locks SET term = NULL, expires_at = utc_timestamp(6) + INTERVAL 0 * last_insert_id(
  2 * coalesce(if(release_lock(sha2(concat_ws('/', database(), 'rowlock_locks', name), 256)) = 1, release_all_locks() >= 0, 0), 0)
  + 2 - coalesce(is_free_lock(sha2(concat_ws('/', database(), 'rowlock_locks', name), 256)), 1)) MICROSECOND
WHERE name = $1 AND term = $2

-- Whether no transaction has the row of a term locked; for callers that must not wait.
-- name: lock_idle
SELECT 1 FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE name = $1 AND term = $2 FOR UPDATE SKIP LOCKED

-- Which sessions have the rows of the names $1 (a JSON list) locked, for people: for a message when a renewal has been kept from
-- the row for some time, and beside a list. A plain read, which waits for nobody. MySQL tells it to users that may read
-- performance_schema; MariaDB to those with PROCESS, and only while a third session waits for the row. "/*!80001" is read by MySQL
-- alone, "/*M!" by MariaDB. The key's first column is the name, in hexadecimal digits. [C75]
-- name: lock_locked_by
WITH asked AS (
  SELECT DISTINCT j.name, concat('0x', hex(j.name)) AS row_key, 'rowlock_locks' AS place
  FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$')) AS j)
/*!80001 SELECT DISTINCT asked.name, t.processlist_id, t.processlist_host, NULL, t.processlist_user
FROM asked JOIN performance_schema.data_locks AS d ON d.index_name = 'PRIMARY' AND d.lock_status = 'GRANTED'
  AND concat('`', d.object_schema, '`.`', d.object_name, '`') IN (asked.place, concat('`', database(), '`.', asked.place))
  AND substring_index(d.lock_data, ', ', 1) = asked.row_key
JOIN performance_schema.threads AS t ON t.thread_id = d.thread_id */
/*M!100600 SELECT DISTINCT asked.name, t.trx_mysql_thread_id, substring_index(p.host, ':', 1), NULL, p.user
FROM asked JOIN information_schema.innodb_locks AS d ON d.lock_index = 'PRIMARY'
  AND d.lock_table IN (asked.place, concat('`', database(), '`.', asked.place))
  AND substring_index(d.lock_data, ', ', 1) = asked.row_key
JOIN information_schema.innodb_lock_waits AS w ON w.blocking_lock_id = d.lock_id
JOIN information_schema.innodb_trx AS t ON t.trx_id = w.blocking_trx_id
LEFT JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id */

-- For a lock that is given back earlier than $3 milliseconds after it was taken. Until then the row has the term $4, which
-- nobody knows, and no owner_process: otherwise the same explicit owner would take it over. If the clock went back since the
-- lock was taken, the time counts from now (C5).
-- It ends by the clock, also where the lock was `observed`: who tries once could not have it otherwise. Nobody trusts the term
-- $4, so that no two own the lock by that, whatever the clock does.
-- name: lock_release_at_least
UPDATE rowlock_locks SET
  expires_at = greatest(utc_timestamp(6), least(acquired_at, utc_timestamp(6)) + INTERVAL 1000 * $3 MICROSECOND),
  ttl = least($3,
    greatest(0, $3 + CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), acquired_at) / 1000) AS SIGNED))),
  longest = $3,
  longest_term = $4,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL,
  term = CASE WHEN acquired_at + INTERVAL 1000 * $3 MICROSECOND > utc_timestamp(6) THEN $4 END
WHERE name = $1 AND term = $2

-- name: lock_revoke
UPDATE rowlock_locks SET revoked = 1 WHERE name = $1 AND term = $2

-- Takes the term $4 away from its holder (C62). The row gets the term $2, which its holder and all takers find, for $3 ms at most.
-- The session that has put it there gives it back by lock_release or unique_release before that, after base::closed_for by its own
-- clock. So all that goes from thread to thread comes before the next grant. Should the session die, the row ends by the server's
-- clock. No owner_process: no owner comes back to it. Not a quorum's, whose term never goes to another thread.
-- name: lock_revoke_now
UPDATE rowlock_locks SET
  expires_at = utc_timestamp(6) + INTERVAL 1000 * $3 MICROSECOND,
  ttl = $3,
  longest = $3,
  longest_term = $2,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL,
  revoked = 1,
  term = $2
WHERE name = $1 AND term = $4

-- Strategy unique_insert, in a transaction. The INSERT waits for another one of the same name that is not committed yet,
-- and for a DELETE; of any number of sessions one gets the row. Says 1 only then. An INSERT that meets a row must not
-- fail: error 1062 alone would do no harm, but one that waited behind a DELETE, with a shared lock, ends in deadlocks. And it
-- must be told from an INSERT that made a row: so it adds to renewals, which is a change whatever the session's way of
-- counting is, and says 2; its transaction is rolled back. Parameters as in lock_take.
-- name: unique_take
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, hard_until, note, longest, longest_term)
SELECT $1, $2, $3, 0, $4, $5, $6, $7, $8, $9,
  utc_timestamp(6),
  utc_timestamp(6) + INTERVAL 1000 * least($8, coalesce($10, $8)) MICROSECOND,
  utc_timestamp(6) + INTERVAL 1000 * $10 MICROSECOND,
  $11, $8, $3
FROM (SELECT 1) AS one WHERE <<pulse $8>> IS NOT NULL
ON DUPLICATE KEY UPDATE renewals = rowlock_locks.renewals + 1

-- Before unique_take, in its transaction: deletes what may be taken, as lock_take has it. Whoever waits here for the row
-- (a renewal, another taker) has its condition looked at afterwards: a row that was renewed meanwhile stays, and of two
-- that clear the second one finds nothing.
-- name: unique_clear
DELETE FROM rowlock_locks
WHERE name = $1 AND strategy = $2
  AND CASE WHEN $3 IS NULL
        THEN term IS NULL OR (takeover = 'clock' AND expires_at <= utc_timestamp(6))
        ELSE term = $3 AND CASE WHEN $4 IS NULL THEN revoked = 0 ELSE renewals = $4 AND $5 = <<incarnation_past_locks >> END END

-- name: unique_set_token
UPDATE rowlock_locks SET token = $3 WHERE name = $1 AND term = $2

-- (No number comes with the reply to a DELETE.)
-- name: unique_release
DELETE FROM rowlock_locks WHERE name = $1 AND term = $2

-- As lock_release_at_least, but only until then: after it, unique_release, so that no row stays that keeps out everybody who
-- locks by INSERT (C33). (A row whose time ends later is deleted by whoever takes the name next, or by the reaper.)
-- name: unique_release_at_least
UPDATE rowlock_locks SET
  expires_at = least(acquired_at, utc_timestamp(6)) + INTERVAL 1000 * $3 MICROSECOND,
  ttl = least($3, $3 + CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), acquired_at) / 1000) AS SIGNED)),
  longest = $3,
  longest_term = $4,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL,
  term = $4
WHERE name = $1 AND term = $2 AND acquired_at + INTERVAL 1000 * $3 MICROSECOND > utc_timestamp(6)

-- The next token of a name that the caller holds. Rises above the floor each time, not only in a fresh row: the name may
-- have had a lease in between, whose tokens went into the floor with its row. And above the base of the last incarnation, wherever
-- that began: the session need not know it. The floor is looked up by the row's token (id is 1 whatever that is), as in lock_take:
-- after a wait for the row, not before. And if the reaper deletes the row just now, this waits and finds none.
-- name: token_draw
UPDATE rowlock_tokens AS t SET t.token = last_insert_id(greatest(
  t.token + 1,
  timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)),
  1 + coalesce((SELECT q.base + 0 * t.token FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1), 0),
  (SELECT m.token_floor + 1 FROM rowlock_meta AS m WHERE m.id = CASE WHEN t.token < 0 THEN 0 ELSE 1 END)))
WHERE t.name = $1

-- What token_draw has drawn, where its reply does not tell: in the same transaction, or by the name's holder.
-- name: token_read
SELECT token FROM rowlock_tokens WHERE name = $1

-- Whether the name's entry is there and nobody has it locked; in autocommit, so that it is let go at once. Asked before a
-- draw whose number the program's own transaction reads next (guard): at SERIALIZABLE that transaction may have the entry
-- locked since it read it before (C32), and would be waited for by its own thread. Who comes in between: anybody may lock the
-- entry after this look; then the draw waits for them, a second at most, as it always did.
-- name: token_try
SELECT token FROM rowlock_tokens FORCE INDEX (PRIMARY) WHERE name = $1 FOR UPDATE SKIP LOCKED

-- name: token_insert
INSERT INTO rowlock_tokens (name, token) VALUES ($1, 0)
ON DUPLICATE KEY UPDATE name = rowlock_tokens.name

-- At the session's READ COMMITTED.
-- name: transaction_begin
START TRANSACTION

-- Strategy row_lock. FOR UPDATE in a transaction that stays open; the session waits in the server, a second at a time. By
-- the primary key, so that no other row is locked, and at READ COMMITTED no gap: an anchor that is absent, or that the
-- reaper deleted while one waited for it, is no row, which is not the lock (T7); start again. The columns: whether it was not
-- touched for an hour, and what row_ping asks, as of when the statement began.
-- name: row_wait
SELECT expires_at <= utc_timestamp(6) - INTERVAL 1 HOUR, cast(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')
FROM rowlock_locks FORCE INDEX (PRIMARY)
WHERE name = $1 AND strategy = 'row_lock' AND <<pulse $2>> IS NOT NULL
FOR UPDATE

-- As row_wait, but a locked anchor is no row.
-- name: row_try
SELECT expires_at <= utc_timestamp(6) - INTERVAL 1 HOUR, cast(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')
FROM rowlock_locks FORCE INDEX (PRIMARY)
WHERE name = $1 AND strategy = 'row_lock' AND <<pulse $2>> IS NOT NULL
FOR UPDATE SKIP LOCKED

-- Whether the server takes no writes any more: after a switch-over that has left this session alive, with its row lock,
-- another server grants the same lock. Also true of super_read_only, which sets read_only. From MariaDB 12 on it is a word.
-- A privileged user could write in spite of it, and is told all the same. [C63]
-- name: row_ping
SELECT cast(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')

-- Says that the anchor was used; after row_try, in its transaction.
-- name: row_touch
UPDATE rowlock_locks SET expires_at = utc_timestamp(6) WHERE name = $1 AND strategy = 'row_lock'

-- The anchors from the name $1 to $2: a plain read. Who holds one the server tells only to an administrator.
-- name: row_anchors
SELECT name FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE strategy = 'row_lock' AND name >= $1 AND name <= $2

-- Those of the names in $1 (a JSON list, short enough for one packet of the reply) that nobody holds: what is missing is
-- held. In autocommit: the shared locks that it takes are over before its reply is sent, whatever the client does. Two that
-- look don't see each other. row_try beside it finds the row locked; then row_lock::take asks the same question, learns
-- that nobody holds it, and waits for the row, for a second at most. Only these rows are locked, by their primary keys:
-- FOR UPDATE SKIP LOCKED on a lease's row would be told busy. (MySQL writes FOR SHARE, MariaDB LOCK IN SHARE MODE, and each
-- takes the other's for a comment.)
-- name: row_free_anchors
SELECT l.name
FROM (
  SELECT DISTINCT j.name
  FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$')) AS j) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.strategy = 'row_lock'
/*!80000 FOR SHARE *//*M! LOCK IN SHARE MODE */ SKIP LOCKED

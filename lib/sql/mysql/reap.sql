-- What the reaper runs, for MySQL and MariaDB (>= 10.6): sessions at READ COMMITTED. lib/sql/postgresql/reap.sql says what
-- each pair of sessions sees; what is different here:
--
-- A DELETE can't skip locked rows, and would lock every row that it only looks at. So it is a transaction: ..._due locks
-- what may go, skipping what others have locked, and gives the names; ..._delete deletes those, by primary key and with the
-- whole condition once more; COMMIT. At READ COMMITTED there are no gap locks (B45), and InnoDB lets go of rows that were
-- read and did not match. The transaction waits for no lock row, so that it can't deadlock with a take (P1); two takers that
-- wait for one deleted row may with each other (1213, T6): both try again.
--
-- UTC_TIMESTAMP(6) is fixed at the statement's start. Nothing waits here, so it is not older than the statement; an older
-- time only leaves more. In ..._due sub-selects are consistent reads: as of the statement's start, the lower floor. In a
-- DELETE they lock what they read (seen on both): the row of rowlock_meta, which is never locked for long by whoever waits
-- for something, and no permit, because who makes one has the anchor locked, as this transaction has.
-- The floor is a transaction before this one, flushed (innodb_flush_log_at_trx_commit = 1), and before it in the log.
-- (A sub-select by a constant key may even be run while the statement is planned: still on the safe side.)
-- Galera: a certification failure at COMMIT (1213) leaves everything as it was; a node that lags reads an older floor.

-- (MariaDB 10.11 forgets an outer table's columns when it runs a prepared statement with EXISTS further out once more.)
-- name: reap_locks_look
SELECT count(*), max(p.name),
  CAST(coalesce(sum(p.due AND NOT p.ahead AND p.strategy = 'unique_insert'), 0) AS SIGNED),
  CAST(coalesce(sum(p.due AND NOT p.ahead AND p.strategy IN ('lease', 'once', 'quorum')), 0) AS SIGNED),
  CAST(coalesce(sum(p.due AND NOT p.ahead AND p.strategy = 'row_lock'), 0) AS SIGNED),
  CAST(coalesce(sum(p.term IS NOT NULL AND p.takeover <> 'clock' AND p.old), 0) AS SIGNED),
  CAST(coalesce(sum(p.due AND p.ahead), 0) AS SIGNED),
  coalesce(max(CASE WHEN p.due AND NOT p.ahead THEN p.token END), 0),
  CAST(coalesce(sum(p.kept), 0) AS SIGNED),
  CAST(coalesce(sum(p.due AND NOT p.ahead AND p.strategy IN ('shared', 'semaphore')), 0) AS SIGNED)
FROM (
  SELECT o.*, o.old AND (o.term IS NULL OR (o.takeover = 'clock' AND o.strategy <> 'row_lock')) AS due
  FROM (
    SELECT l.name, l.strategy, l.term, l.takeover, l.token,
      l.takeover = 'clock' AND l.longest_term = l.term
        AND CASE WHEN l.longest BETWEEN 1 AND 6311520000000
        THEN l.expires_at > utc_timestamp(6) + INTERVAL 1000 * l.longest MICROSECOND ELSE 0 END AS kept,
      l.token > timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + 86400000000 AS ahead,
      CASE l.strategy
        WHEN 'unique_insert' THEN l.term IS NULL OR l.expires_at <= utc_timestamp(6)
        WHEN 'lease' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $3 MICROSECOND
        WHEN 'once' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $3 MICROSECOND
        WHEN 'quorum' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $3 MICROSECOND
        WHEN 'row_lock' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $3 MICROSECOND
        ELSE l.strategy IN ('shared', 'semaphore') AND l.permit_limit IS NULL
          AND l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $3 MICROSECOND
          AND NOT l.permitted END AS old
    FROM (
      SELECT k.*, EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = k.name) AS permitted
      FROM rowlock_locks AS k WHERE k.name > $1 ORDER BY k.name LIMIT $2) AS l) AS o) AS p

-- $3 permits behind the one with name $1 and term $2, and whether each has expired $4 milliseconds ago. Read only. What is due is
-- deleted by permit_purge. (A name may have more of them than a page.)
-- name: reap_permits_look
SELECT p.name, p.term, p.takeover = 'clock' AND p.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $4 MICROSECOND
FROM rowlock_permits AS p WHERE p.name > $1 OR (p.name = $1 AND p.term > $2) ORDER BY p.name, p.term LIMIT $3

-- name: reap_raise_floor
UPDATE rowlock_meta SET token_floor = $1 WHERE id = 1 AND token_floor < $1

-- Of the names after $1 up to $2 at most $3 that may go, $4 milliseconds being idle, locked.
-- name: reap_locks_due
SELECT l.name, l.strategy FROM rowlock_locks AS l
WHERE l.name > $1 AND l.name <= $2
  AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6)))
  AND CASE l.strategy
    WHEN 'unique_insert' THEN 1
    WHEN 'lease' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $4 MICROSECOND
    WHEN 'once' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $4 MICROSECOND
    WHEN 'quorum' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $4 MICROSECOND
    WHEN 'row_lock' THEN l.term IS NULL AND l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $4 MICROSECOND
    ELSE l.strategy IN ('shared', 'semaphore') AND l.term IS NULL AND l.permit_limit IS NULL
      AND l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $4 MICROSECOND
      AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = l.name) END
  AND l.token <= timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + 86400000000
  AND l.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
ORDER BY l.name LIMIT $3
FOR UPDATE SKIP LOCKED

-- $1: JSON ["name", ...], what reap_locks_due has locked; $2: idle.
-- name: reap_locks_delete
DELETE l FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$')) AS due
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = due.name
WHERE (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6)))
  AND CASE l.strategy
    WHEN 'unique_insert' THEN 1
    WHEN 'lease' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $2 MICROSECOND
    WHEN 'once' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $2 MICROSECOND
    WHEN 'quorum' THEN l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $2 MICROSECOND
    WHEN 'row_lock' THEN l.term IS NULL AND l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $2 MICROSECOND
    ELSE l.strategy IN ('shared', 'semaphore') AND l.term IS NULL AND l.permit_limit IS NULL
      AND l.expires_at <= utc_timestamp(6) - INTERVAL 1000 * $2 MICROSECOND
      AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = l.name) END
  AND l.token <= timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + 86400000000
  AND l.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)

-- What a clock that went back keeps, to be watched. Plain reads: they wait for nobody.
-- name: reap_kept
SELECT l.name, l.strategy, l.term, l.renewals, l.longest FROM rowlock_locks AS l
WHERE l.name > $1 AND l.name <= $2 AND l.takeover = 'clock' AND l.longest_term = l.term
  AND CASE WHEN l.longest BETWEEN 1 AND 6311520000000
        THEN l.expires_at > utc_timestamp(6) + INTERVAL 1000 * l.longest MICROSECOND ELSE 0 END
ORDER BY l.name LIMIT $3

-- By primary key, in autocommit: waits for that one row, for a second at most, and looks at it again then.
-- name: reap_end_lease
UPDATE rowlock_locks SET expires_at = utc_timestamp(6), term = NULL
WHERE name = $1 AND term = $2 AND renewals = $3 AND $4 = <<incarnation token>> AND strategy IN ('lease', 'once', 'quorum') AND takeover = 'clock'
  AND longest_term = term AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > utc_timestamp(6) + INTERVAL 1000 * longest MICROSECOND ELSE 0 END

-- name: reap_end_insert
DELETE FROM rowlock_locks
WHERE name = $1 AND term = $2 AND renewals = $3 AND $4 = <<incarnation_past_locks >> AND strategy = 'unique_insert' AND takeover = 'clock'
  AND longest_term = term AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > utc_timestamp(6) + INTERVAL 1000 * longest MICROSECOND ELSE 0 END

-- name: reap_tokens_look
SELECT count(*), max(p.name), CAST(coalesce(sum(p.due), 0) AS SIGNED), coalesce(max(CASE WHEN p.due THEN p.token END), 0)
FROM (
  SELECT t.name, t.token,
    t.token <= timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) - $3 * 1000 AS due
  FROM (SELECT * FROM rowlock_tokens WHERE name > $1 ORDER BY name LIMIT $2) AS t) AS p

-- name: reap_tokens_due
SELECT t.name, 'tokens' FROM rowlock_tokens AS t
WHERE t.name > $1 AND t.name <= $2
  AND t.token <= timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) - $4 * 1000
  AND t.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
ORDER BY t.name LIMIT $3
FOR UPDATE SKIP LOCKED

-- name: reap_tokens_delete
DELETE t FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$')) AS due
STRAIGHT_JOIN rowlock_tokens AS t FORCE INDEX (PRIMARY) ON t.name = due.name
WHERE t.token <= timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) - $2 * 1000
  AND t.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)

-- name: reap_floor
SELECT token_floor FROM rowlock_meta WHERE id = 1

-- name: reap_record
UPDATE rowlock_reaper SET
  started_at = utc_timestamp(6) - INTERVAL 1000 * $1 MICROSECOND,
  finished_at = utc_timestamp(6), host = $2, pid = $3, report = $4
WHERE id = 1

-- name: reap_last
SELECT timestampdiff(MICROSECOND, '1970-01-01', started_at) AS started_us,
  timestampdiff(MICROSECOND, '1970-01-01', finished_at) AS finished_us, host, pid, report
FROM rowlock_reaper WHERE id = 1

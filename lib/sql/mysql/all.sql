-- Several locks at once, all or none of them (strategy lease), for MySQL and MariaDB; the same names and parameters as in the
-- other dialects: lib/doc/all_at_once.md. An UPDATE can't skip locked rows here. So each is a transaction of the library's own
-- at READ COMMITTED, of three statements that are sent as one text:
-- * ..._due locks the rows, one after the other in the order of the list, which is that of their names, by the whole primary key.
--   It skips what others have locked, and lets go of a row that does not match when it reads the next one (the last one stays locked
--   until the transaction's end, by which nobody is kept for long). So it waits for nobody. Which of those that match it has locked
--   it leaves in @rowlock_due, a bit for each place in the list; so there are 64 names at most.
-- * The UPDATE looks at the list first, and touches no row but those: they are locked already, so it does not wait, either. What
--   was true of them is true still. There are no gap locks at READ COMMITTED.
-- * ..._done tells what became of it, by a plain read.
-- If one of them fails, those behind it are not run, nor is the COMMIT; the session rolls back.
-- DISTINCT, CONVERT: as in lock_renew_due.

-- Those of $1, JSON [{"name":..., "term":..., "old":..., "renewals":...}, ...], that may be taken, as lock_take has it. ("old",
-- "renewals" and "incarnation" are its $13 to $15; each may be missing.) $2: the strategy. Other parameters as all_take.
-- @rowlock_grants: the incarnation by which the database grants. Null: nothing.
-- name: all_take_due
SELECT bit_or(1 << (wanted.place - 1)), utc_timestamp(6), <<pulse $7>> INTO @rowlock_due, @rowlock_at, @rowlock_grants
FROM (
  SELECT DISTINCT j.place, j.name, j.old, j.renewals, j.incarnation
  FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name',
    old VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.old',
    renewals BIGINT PATH '$.renewals',
    incarnation BIGINT PATH '$.incarnation')) AS j) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.strategy = $2
  AND CASE WHEN wanted.old IS NULL
        THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6))
        ELSE l.term = wanted.old
          AND CASE WHEN wanted.renewals IS NULL THEN l.revoked = 0
            ELSE l.renewals = wanted.renewals AND wanted.incarnation = <<incarnation l.token>> END END
FOR UPDATE SKIP LOCKED

-- Takes those, if they are $12 at least, each with its own term ("thread": if missing, it is $6); the tokens are as lock_take has
-- them. (An UPDATE of a join assigns in no certain order: nothing here reads what is assigned but the column itself.) The
-- conditions again, because this statement must be right by itself, wherever a proxy may have sent the one before; but as of the
-- moment at which that one looked, @rowlock_at: a clock that went back meanwhile would leave some out.
-- name: all_take
UPDATE JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term',
    thread BIGINT PATH '$.thread',
    old VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.old',
    renewals BIGINT PATH '$.renewals',
    incarnation BIGINT PATH '$.incarnation')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
SET
  l.token = CASE WHEN $11 = 0 THEN l.token ELSE greatest(
    l.token + $11,
    timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + $11 - 1,
    $11 + CAST(coalesce(@rowlock_grants, 0) AS SIGNED),
    CASE WHEN l.token = 0 THEN (
      SELECT $11 + greatest(m.token_floor,
        coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
      FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END) END,
  l.owner_host = $3,
  l.owner_pid = $4,
  l.owner_process = $5,
  l.owner_thread = coalesce(wanted.thread, $6),
  l.renewals = 0,
  l.ttl = $7,
  l.takeover = $8,
  l.acquired_at = utc_timestamp(6),
  l.expires_at = utc_timestamp(6) + INTERVAL 1000 * least($7, coalesce($9, $7)) MICROSECOND,
  l.hard_until = utc_timestamp(6) + INTERVAL 1000 * $9 MICROSECOND,
  l.revoked = 0,
  l.note = $10,
  l.longest = $7,
  l.longest_term = wanted.term,
  l.term = wanted.term
WHERE @rowlock_grants IS NOT NULL AND bit_count(@rowlock_due) >= $12 AND @rowlock_due >> (wanted.place - 1) & 1 AND l.strategy = $2
  AND CASE WHEN wanted.old IS NULL
        THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= CAST(@rowlock_at AS DATETIME(6)))
        ELSE l.term = wanted.old
          AND CASE WHEN wanted.renewals IS NULL THEN l.revoked = 0
            ELSE l.renewals = wanted.renewals AND wanted.incarnation = CAST(@rowlock_grants AS SIGNED) END END

-- Which of $1 have their terms, and their tokens.
-- name: all_take_done
SELECT l.name, l.token
FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.term = wanted.term

-- Those of $1, JSON [{"name":..., "term":...}, ...], that have their term and that nobody else has locked.
-- name: all_release_due
SELECT bit_or(1 << (wanted.place - 1)) INTO @rowlock_due
FROM (
  SELECT DISTINCT j.place, j.name, j.term
  FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS j) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.term = wanted.term
FOR UPDATE SKIP LOCKED

-- By name and term: whoever has a row by now, a late release does not touch it.
-- name: all_release
UPDATE JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
SET l.expires_at = utc_timestamp(6), l.term = NULL
WHERE @rowlock_due >> (wanted.place - 1) & 1 AND l.term = wanted.term

-- Which of $1 were given back, and whether somebody has the name's wait queue. (Who comes there between this and the COMMIT looks at the
-- row often enough, being the first.)
-- name: all_release_done
SELECT wanted.name,
  1 - coalesce(is_free_lock(sha2(concat_ws('/', database(), 'rowlock_locks', wanted.name), 256)), 1) AS others_wait
FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name')) AS wanted
WHERE @rowlock_due >> (wanted.place - 1) & 1

-- As lock_read, for the names of $1 (JSON as for all_take). A plain read: waits for nobody.
-- name: all_read
SELECT l.name, l.strategy, l.term, l.token, l.owner_host, l.owner_pid, l.owner_process, l.owner_thread, l.renewals, l.ttl,
  l.takeover,
  timestampdiff(MICROSECOND, '1970-01-01', l.acquired_at) AS acquired_us,
  CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), l.expires_at) / 1000) AS SIGNED) AS expires_in_ms,
  l.revoked, l.note, l.hard_until <= utc_timestamp(6) AS hard_limit_reached,
  CASE WHEN l.longest_term = l.term THEN l.longest END AS longest_ms
FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$.name')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
ORDER BY l.name

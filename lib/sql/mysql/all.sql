-- Several locks at once, all or none of them (strategy lease), for MySQL and MariaDB; the same names and parameters as in the
-- other dialects: lib/doc/all_at_once.md. Each is one statement in autocommit, at READ COMMITTED. (As
-- a transaction of several, sent as one text, they cost the server twice as much: lib/doc/together.md.)
-- * The inner SELECT locks the rows, one after the other in the order of the list, which is that of their names, by the whole primary
--   key. It skips what others have locked, and lets go of a row that does not match when it reads the next one (the last one stays
--   locked until the statement's end, by which nobody is kept for long). So it waits for nobody. There are no gap locks.
-- * The SELECT around it sees all of these rows: how many there are, and the highest token. The UPDATE touches those alone, so it does
--   not wait, either. What was true of them is true still.
-- * There is no RETURNING. What became of it is the one number that comes with the reply (lock.sql), and the count of rows. Where
--   these don't suffice, a SELECT behind it tells.
-- * In an UPDATE of a join InnoDB reads the tables of sub-selects with a lock: here it skips pulses that others have locked. A pulse of
--   another incarnation counts no more than in lock_take.
-- DISTINCT keeps what is in it a table of its own, that is read first. "OF l": MySQL refuses to lock the list; MariaDB has no such word,
-- and locks rows of tables alone. CONVERT: the connector sends a long text as bytes.

-- Of $1, JSON [{"name":..., "term":..., "thread":..., "old":..., "renewals":...}, ...], takes those that may be taken, if they are
-- $12 at least, each with its own term. What may be taken is as lock_take has it ("old", "renewals" and "incarnation" are its $13 to
-- $15; each may be missing, and so may "thread", then it is $6). $2: the strategy. $11: how many tokens are drawn for each name.
-- Each token is above all that its name has had, as in lock_take. All get the highest one, and the reply's number is that; it is 0 where
-- this would put a token more than an hour ahead: then each has its own.
-- fragment: all_taking
UPDATE (
  SELECT f.name, f.term, f.thread, count(*) OVER () AS found,
    CASE WHEN max(f.token) OVER () - min(f.token) OVER () < 3600000000 THEN max(f.token) OVER () ELSE f.token END AS token,
    CASE WHEN max(f.token) OVER () - min(f.token) OVER () < 3600000000 THEN max(f.token) OVER () ELSE 0 END AS told
  FROM (
    SELECT DISTINCT j.name, j.term, j.thread,
      greatest(
        l.token + $11,
        timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + $11 - 1,
        $11 + p.base,
        CASE WHEN l.token = 0 THEN (
          SELECT $11 + greatest(m.token_floor,
            coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
          FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END) AS token
    FROM (SELECT <<pulse_past_locks $7>> AS base) AS p
    STRAIGHT_JOIN JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
      name VARBINARY(255) PATH '$.name',
      term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term',
      thread BIGINT PATH '$.thread',
      old VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.old',
      renewals BIGINT PATH '$.renewals',
      incarnation BIGINT PATH '$.incarnation')) AS j
    STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = j.name
    WHERE p.base = <<known_base >> AND l.strategy = $2
      AND CASE WHEN j.old IS NULL
            THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6))
            ELSE l.term = j.old
              AND CASE WHEN j.renewals IS NULL THEN l.revoked = 0 ELSE l.renewals = j.renewals AND j.incarnation = p.base END END
    FOR UPDATE /*!80001 OF l */ SKIP LOCKED) AS f) AS free
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = free.name
SET
  l.token = CASE WHEN $11 = 0 THEN l.token ELSE free.token + 0 * last_insert_id(free.told) END,
  l.owner_host = $3,
  l.owner_pid = $4,
  l.owner_process = $5,
  l.owner_thread = coalesce(free.thread, $6),
  l.renewals = 0,
  l.ttl = $7,
  l.takeover = $8,
  l.acquired_at = utc_timestamp(6),
  l.expires_at = utc_timestamp(6) + INTERVAL 1000 * least($7, coalesce($9, $7)) MICROSECOND,
  l.hard_until = utc_timestamp(6) + INTERVAL 1000 * $9 MICROSECOND,
  l.revoked = 0,
  l.note = $10,
  l.longest = $7,
  l.longest_term = free.term,
  l.term = free.term
WHERE free.found >= <<>>
-- end

-- name: all_take
<<all_taking $12>>

-- Takes those of them that may be taken, for threads that do not depend on each other: lib/doc/together.md.
-- name: each_take
<<all_taking 1>>

-- Which of $1 have their terms, and their tokens: behind all_take, where its reply does not say.
-- name: all_take_done
SELECT l.name, l.token
FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS wanted
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = wanted.name
WHERE l.term = wanted.term

-- Gives back those of $1, JSON [{"name":..., "term":...}, ...], that have their term and that nobody else has locked. By name and term:
-- whoever has a row by now, a late release does not touch it.
-- The reply's number has a bit for each place in the list, the first 63. If all were given back: whether somebody has the name's wait
-- queue. (Who comes there between this and the commit looks at the row often enough, being the first.) If not all were, which. A number
-- has no 64th bit: the count of rows tells that one. (A sum: the first 8.0 of MySQL have no bit_or in a window.)
-- name: all_release
UPDATE (
  SELECT f.name,
    CAST(CASE WHEN count(*) OVER () = json_length(CONVERT($1 USING utf8mb4))
      THEN sum(f.waits << (f.place - 1)) OVER () ELSE sum(1 << (f.place - 1)) OVER () END AS UNSIGNED) & 9223372036854775807 AS told
  FROM (
    SELECT DISTINCT j.place, j.name, 1 - coalesce(is_free_lock(sha2(concat_ws('/', database(), 'rowlock_locks', j.name), 256)), 1) AS waits
    FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
      place FOR ORDINALITY,
      name VARBINARY(255) PATH '$.name',
      term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS j
    STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = j.name
    WHERE l.term = j.term
    FOR UPDATE /*!80001 OF l */ SKIP LOCKED) AS f) AS mine
STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = mine.name
SET l.expires_at = utc_timestamp(6) + INTERVAL 0 * last_insert_id(mine.told) MICROSECOND, l.term = NULL

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

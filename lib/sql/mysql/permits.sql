-- Permits: locks that several may hold at a time (strategies shared and semaphore), for MySQL and MariaDB. lib/doc/permits.md; the
-- same names, parameters and columns as in the other dialects. A permit is a row of rowlock_permits, with a term. The name's
-- row in rowlock_locks is the anchor: it has no term, its token is the last one that was drawn, and whoever counts has it locked.
--
-- A take is one transaction at READ COMMITTED, sent as one text (to Galera each statement by itself): permit_anchor, permit_take, permit_count, permit_token_done. Who
-- comes in between:
-- Two takers: the second waits in permit_anchor; what it counts afterwards is a consistent read of its own, as of the start of
--   permit_take, and has the first one's permit. In one statement it would count by the view from before the wait (C43).
-- A release that is not committed yet: its units count still. A renewal, extension or guard changes no units.
-- A permit that has expired counts until it is deleted, so that its holder's last renewal and its deletion are decided by
--   the permit's own row: permit_purge.
-- Galera: two nodes may both count. permit_count changes the anchor always, so that one of them fails with its COMMIT.

-- A name whose row is made between the first two: who has not locked it must not count, or two would. So permit_anchor
--   leaves the taker's term $3 in a variable, if there is a row to lock, and permit_take grants only who finds it there.

-- NULL is left if the name has no row, or is used with another strategy. By count(*), because a variable outlives its transaction: a
-- second attempt of the same take must not find what the first one left.
-- name: permit_anchor
SELECT CASE count(*) WHEN 1 THEN $3 END INTO @rowlock_anchor
FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE name = $1 AND strategy = $2 FOR UPDATE

-- $1 to $11 as lock_take; the token rises as it has it. $12: how many units. $13: the limit that the taker was told; null: the
-- one that was set. $14: the taker's own intent; null: it obeys none. $15: the term of its own that this one is to replace, and that
-- does not count; null: none. If that is not there any more, or is revoked, nothing is taken: somebody may have come in between.
-- An intent is the units that the head of the line waits for: nobody else takes those. One that ends more than 2 s ahead is
-- none: the clock went back (C44).
-- name: permit_take
INSERT INTO rowlock_permits (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, hard_until, note, longest, longest_term, units, told)
SELECT l.name, l.strategy, $3,
  greatest(
    l.token + 1,
    timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)),
    1 + coalesce(<<known_base >>, 0),
    CASE WHEN l.token = 0 THEN (
      SELECT 1 + greatest(m.token_floor,
        coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
      FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END),
  $4, $5, $6, $7, $8, $9,
  utc_timestamp(6),
  utc_timestamp(6) + INTERVAL 1000 * least($8, coalesce($10, $8)) MICROSECOND,
  utc_timestamp(6) + INTERVAL 1000 * $10 MICROSECOND,
  $11, $8, $3, $12, coalesce($13, l.permit_limit)
FROM rowlock_locks AS l FORCE INDEX (PRIMARY)
WHERE l.name = $1 AND l.strategy = $2
  AND @rowlock_anchor = $3
  AND <<pulse $8>> = <<known_base >>
  AND $12
    + (SELECT coalesce(sum(p.units), 0) FROM rowlock_permits AS p WHERE p.name = $1 AND NOT p.term <=> $15)
    + CASE WHEN l.intent_term <> $14 AND l.intent_until > utc_timestamp(6)
             AND l.intent_until <= utc_timestamp(6) + INTERVAL 2 SECOND THEN l.intent_units ELSE 0 END
    <= coalesce($13, l.permit_limit)
  AND ($15 IS NULL
    OR EXISTS (SELECT 1 FROM rowlock_permits AS mine WHERE mine.name = $1 AND mine.term = $15 AND NOT mine.revoked))

-- If permit_take has made the permit $2: the anchor's token rises to its token, and its taker's intent $3 is over.
-- name: permit_count
UPDATE rowlock_permits AS p STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = p.name SET
  l.token = greatest(l.token, p.token),
  l.expires_at = utc_timestamp(6),
  l.intent_until = CASE WHEN l.intent_term = $3 THEN NULL ELSE l.intent_until END
WHERE p.name = $1 AND p.term = $2

-- If permit_take has made the permit $2: the one that it replaces ($3) is over.
-- name: permit_replaced
DELETE old FROM rowlock_permits AS new STRAIGHT_JOIN rowlock_permits AS old FORCE INDEX (PRIMARY) ON old.name = new.name
WHERE new.name = $1 AND new.term = $2 AND old.term = $3

-- The token of a permit, for a taker whose reply was lost, and as the last statement of a take.
-- name: permit_token
SELECT token FROM rowlock_permits WHERE name = $1 AND term = $2

-- How things stand: the anchor's strategy, the limit that was set, the units of those that have not expired, of all, and those that
-- somebody else than $2 intends to take (null: none). A plain read: decides only who need not try.
-- name: permit_look
SELECT l.strategy, l.permit_limit,
  (SELECT CAST(coalesce(sum(p.units), 0) AS SIGNED) FROM rowlock_permits AS p
    WHERE p.name = $1 AND p.expires_at > utc_timestamp(6)),
  (SELECT CAST(coalesce(sum(p.units), 0) AS SIGNED) FROM rowlock_permits AS p WHERE p.name = $1),
  CASE WHEN l.intent_term <> $2 AND l.intent_until > utc_timestamp(6)
    AND l.intent_until <= utc_timestamp(6) + INTERVAL 2 SECOND THEN l.intent_units ELSE 0 END
FROM rowlock_locks AS l WHERE l.name = $1

-- The head of the line says what it waits for: $3 units, under the id $4, for $5 milliseconds. Where there is no line ($5 null) it
-- does so in every other half second, and until that is over, if nobody else has: in the halves between nobody is kept from
-- anything. A hint.
-- name: permit_intend
UPDATE rowlock_locks SET
  intent_until = CASE WHEN $5 IS NULL
    THEN '1970-01-01' + INTERVAL 500000 * (1 + timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) DIV 500000) MICROSECOND
    ELSE utc_timestamp(6) + INTERVAL 1000 * $5 MICROSECOND END,
  intent_units = $3,
  intent_term = $4
WHERE name = $1 AND strategy = $2
  AND ($5 IS NOT NULL
    OR (timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) DIV 500000 % 2 = 1
      AND (intent_until IS NULL OR intent_term = $4 OR intent_until <= utc_timestamp(6)
        OR intent_until > utc_timestamp(6) + INTERVAL 2 SECOND)))

-- Terms of $1 that have expired, 1000 at most. A plain read.
-- name: permit_expired
SELECT term FROM rowlock_permits WHERE name = $1 AND takeover = 'clock' AND expires_at <= utc_timestamp(6) ORDER BY term LIMIT 1000

-- First half of permit_purge, in its transaction: locks those of $1, JSON [{"name":..., "term":...}, ...], that have expired, by the
-- whole primary key, and skips what others have locked (a guarded transaction of a holder that is late; another one that
-- purges): so it waits for nobody (C42). A renewal that was committed before has moved the expiry.
-- name: permit_purge_due
SELECT bit_or(1 << (wanted.place - 1)), utc_timestamp(6) INTO @rowlock_due, @rowlock_at
FROM (
  SELECT DISTINCT j.place, j.name, j.term
  FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS j) AS wanted
STRAIGHT_JOIN rowlock_permits AS p FORCE INDEX (PRIMARY) ON p.name = wanted.name AND p.term = wanted.term
WHERE p.takeover = 'clock' AND p.expires_at <= utc_timestamp(6)
FOR UPDATE SKIP LOCKED

-- Second half: those. A renewal that comes later finds no row: lost. The conditions again, as of the moment at which that one
-- looked, because this statement must be right by itself.
-- name: permit_purge
DELETE p FROM JSON_TABLE(CONVERT($1 USING utf8mb4), '$[*]' COLUMNS (
    place FOR ORDINALITY,
    name VARBINARY(255) PATH '$.name',
    term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS wanted
STRAIGHT_JOIN rowlock_permits AS p FORCE INDEX (PRIMARY) ON p.name = wanted.name AND p.term = wanted.term
WHERE @rowlock_due >> (wanted.place - 1) & 1 AND p.takeover = 'clock' AND p.expires_at <= CAST(@rowlock_at AS DATETIME(6))

-- How many those were: of several statements in one text the connector tells it of the first alone.
-- name: permit_purge_done
SELECT row_count()

-- (No number comes with the reply to a DELETE.)
-- name: permit_release
DELETE FROM rowlock_permits WHERE name = $1 AND term = $2

-- As lock_release_at_least, but only until then: after it, permit_release.
-- name: permit_release_at_least
UPDATE rowlock_permits SET
  expires_at = least(acquired_at, utc_timestamp(6)) + INTERVAL 1000 * $3 MICROSECOND,
  ttl = $3,
  longest = $3,
  longest_term = $4,
  owner_process = NULL,
  renewals = renewals + 1,
  hard_until = NULL,
  term = $4
WHERE name = $1 AND term = $2 AND acquired_at + INTERVAL 1000 * $3 MICROSECOND > utc_timestamp(6)

-- All of a name, or the one with the term $2.
-- name: permit_revoke
UPDATE rowlock_permits SET revoked = 1 WHERE name = $1 AND ($2 IS NULL OR term = $2)

-- name: permit_revoke_now
DELETE FROM rowlock_permits WHERE name = $1 AND ($2 IS NULL OR term = $2)

-- The limit for all who name none.
-- name: permit_set_limit
UPDATE rowlock_locks SET permit_limit = $3 WHERE name = $1 AND strategy = $2

-- As lock_list, $5 permits from the name $3 on, of that name those after the term $4; and what each has. $1: as $3 there, $2: as $4.
-- name: permit_list
SELECT name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  timestampdiff(MICROSECOND, '1970-01-01', acquired_at) AS acquired_us,
  CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), expires_at) / 1000) AS SIGNED) AS expires_in_ms,
  revoked, note, hard_until <= utc_timestamp(6) AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms,
  units, told
FROM rowlock_permits FORCE INDEX (PRIMARY)
WHERE name >= $3 AND (name > $3 OR term > $4) AND name LIKE $2 ESCAPE '|'
  AND ($1 = 0 OR acquired_at <= utc_timestamp(6) - INTERVAL 1000 * $1 MICROSECOND)
ORDER BY name, term LIMIT $5

-- Units and limit of each permit of $1, or of all ($1 empty).
-- name: permit_units
SELECT name, term, units, told FROM rowlock_permits WHERE $1 = '' OR name = $1

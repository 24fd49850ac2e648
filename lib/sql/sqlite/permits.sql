-- Permits: locks that several may hold at a time (strategies shared and semaphore). lib/doc/permits.md; the same names, parameters
-- and columns as in the other dialects. A permit is a row of rowlock_permits, with a term. The name's row in rowlock_locks
-- is the anchor: it has no term, and its token is the last one that was drawn.
-- A take is a transaction that begins as a write transaction: permit_take and permit_count. SQLite has one writer at a time, so
-- that nobody comes in between. A permit that has expired counts until it is deleted.

-- No row: the name has none, or is used with another strategy.
-- name: permit_anchor
SELECT permit_limit FROM rowlock_locks WHERE name = ?1 AND strategy = ?2 AND ?3 IS NOT NULL

-- ?1 to ?11 as lock_take; the token rises as it has it. ?12: how many units. ?13: the limit that the taker was told; null: the
-- one that was set. ?14: the taker's own intent; null: it obeys none. ?15: the term of its own that this one is to replace, and that
-- does not count; null: none. If that is not there any more, or is revoked, nothing is taken: somebody may have come in between.
-- An intent is the units that the head of the line waits for: nobody else takes those. One that ends more than 2 s ahead is
-- none: the clock went back (C44).
-- name: permit_take
/* draws by rowlock_meta */ INSERT INTO rowlock_permits (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, hard_until, note, longest, longest_term, units, told)
SELECT l.name, l.strategy, ?3,
  rowlock_drawn(max(
    l.token + 1,
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
    (SELECT 1 + m.boot_floor FROM rowlock_meta AS m WHERE m.id = 1),
    CASE WHEN l.token = 0 THEN (
      SELECT 1 + max(m.token_floor, coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = ?1), 0))
      FROM rowlock_meta AS m WHERE m.id = 1) ELSE 0 END)),
  ?4, ?5, ?6, ?7, ?8, ?9,
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + min(?8, coalesce(?10, ?8)),
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?10,
  ?11, ?8, ?3, ?12, coalesce(?13, l.permit_limit)
FROM rowlock_locks AS l
WHERE l.name = ?1 AND l.strategy = ?2
  AND ?12
    + (SELECT coalesce(sum(p.units), 0) FROM rowlock_permits AS p WHERE p.name = ?1 AND p.term IS NOT ?15)
    + CASE WHEN l.intent_term <> ?14
             AND l.intent_until > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
             AND l.intent_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 2000 THEN l.intent_units ELSE 0 END
    <= coalesce(?13, l.permit_limit)
  AND (?15 IS NULL
    OR EXISTS (SELECT 1 FROM rowlock_permits AS mine WHERE mine.name = ?1 AND mine.term = ?15 AND NOT mine.revoked))
RETURNING token

-- If permit_take has made the permit ?2: the anchor's token rises to its token, and its taker's intent ?3 is over.
-- name: permit_count
UPDATE rowlock_locks SET
  token = max(rowlock_locks.token, p.token),
  expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  intent_until = CASE WHEN intent_term = ?3 THEN NULL ELSE intent_until END
FROM rowlock_permits AS p
WHERE rowlock_locks.name = ?1 AND p.name = ?1 AND p.term = ?2

-- If permit_take has made the permit ?2: the one that it replaces (?3) is over.
-- name: permit_replaced
DELETE FROM rowlock_permits
WHERE name = ?1 AND term = ?3 AND EXISTS (SELECT 1 FROM rowlock_permits AS new WHERE new.name = ?1 AND new.term = ?2)

-- The token of a permit, for a taker whose reply was lost.
-- name: permit_token
SELECT token FROM rowlock_permits WHERE name = ?1 AND term = ?2

-- How things stand: the anchor's strategy, the limit that was set, the units of those that have not expired, of all, and those that
-- somebody else than ?2 intends to take (null: none). A plain read: decides only who need not try.
-- name: permit_look
SELECT l.strategy, l.permit_limit,
  (SELECT coalesce(sum(p.units), 0) FROM rowlock_permits AS p
    WHERE p.name = ?1 AND p.expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
  (SELECT coalesce(sum(p.units), 0) FROM rowlock_permits AS p WHERE p.name = ?1),
  CASE WHEN l.intent_term <> ?2
    AND l.intent_until > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    AND l.intent_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 2000 THEN l.intent_units ELSE 0 END
FROM rowlock_locks AS l WHERE l.name = ?1

-- The head of the line says what it waits for: ?3 units, under the id ?4, for ?5 milliseconds. Where there is no line (?5 null) it
-- does so in every other half second, and until that is over, if nobody else has: in the halves between nobody is kept from
-- anything. A hint: need not be flushed.
-- name: permit_intend
/* unflushed */ UPDATE rowlock_locks SET
  intent_units = ?3,
  intent_term = ?4,
  intent_until = CASE WHEN ?5 IS NULL
    THEN (cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) / 500 + 1) * 500
    ELSE cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?5 END
WHERE name = ?1 AND strategy = ?2
  AND (?5 IS NOT NULL
    OR (cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) / 500 % 2 = 1
      AND (intent_until IS NULL OR intent_term = ?4
        OR intent_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
        OR intent_until > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 2000)))

-- Terms of ?1 that have expired, 1000 at most. A plain read.
-- name: permit_expired
SELECT term FROM rowlock_permits
WHERE name = ?1 AND takeover = 'clock' AND expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
ORDER BY term LIMIT 1000

-- Deletes those of ?1, JSON [{"name":..., "term":...}, ...], that have expired.
-- name: permit_purge
DELETE FROM rowlock_permits
WHERE (name, term) IN (SELECT w.value ->> 'name', w.value ->> 'term' FROM json_each(?1) AS w)
  AND takeover = 'clock' AND expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)

-- As lock_release. (What it returns: the file does not know who waits.)
-- name: permit_release
/* unflushed */ DELETE FROM rowlock_permits WHERE name = ?1 AND term = ?2

-- As lock_release_at_least, but only until then: after it, permit_release.
-- name: permit_release_at_least
UPDATE rowlock_permits SET
  term = ?4,
  expires_at = min(acquired_at, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) + ?3,
  ttl = ?3,
  longest = ?3,
  longest_term = ?4,
  owner_process = NULL,
  renewals = renewals + 1,
  hard_until = NULL
WHERE name = ?1 AND term = ?2 AND acquired_at + ?3 > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
RETURNING term

-- All of a name, or the one with the term ?2.
-- name: permit_revoke
UPDATE rowlock_permits SET revoked = 1 WHERE name = ?1 AND (?2 IS NULL OR term = ?2) RETURNING term

-- name: permit_revoke_now
DELETE FROM rowlock_permits WHERE name = ?1 AND (?2 IS NULL OR term = ?2) RETURNING name

-- The limit for all who name none.
-- name: permit_set_limit
UPDATE rowlock_locks SET permit_limit = ?3 WHERE name = ?1 AND strategy = ?2 RETURNING name

-- As lock_list, ?5 permits from the name ?3 on, of that name those after the term ?4; and what each has. ?1: as ?3 there, ?2: as ?4.
-- name: permit_list
SELECT name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  max(min(acquired_at, 253402214400000), -62135596800000) * 1000 AS acquired_us,
  max(min(expires_at, 253402214400000), -62135596800000)
    - cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS expires_in_ms,
  revoked, substr(note, 1, 1024),
  hard_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms,
  units, told
FROM rowlock_permits
WHERE name >= ?3 AND (name > ?3 OR term > ?4) AND name LIKE ?2 ESCAPE '|'
  AND (?1 = 0 OR acquired_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?1)
ORDER BY name, term LIMIT ?5

-- Units and limit of each permit of ?1, or of all (?1 empty).
-- name: permit_units
SELECT name, term, units, told FROM rowlock_permits WHERE ?1 = '' OR name = ?1

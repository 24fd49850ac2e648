-- Permits: locks that several may hold at a time (strategies shared and semaphore). lib/doc/permits.md. A permit is a row of
-- rowlock_permits, with a term. The name's row in rowlock_locks is the anchor: it has no term, its token is the last one that
-- was drawn, and whoever counts has it locked.
--
-- A take is one transaction at READ COMMITTED: permit_anchor, permit_take, permit_count, each with a snapshot of its own. Who comes
-- in between:
-- Two takers: the second waits in permit_anchor, and what it counts afterwards has the first one's permit. In one statement it would
--   count by the snapshot from before the wait, and so it would at REPEATABLE READ: two writers (C43). There, the anchor was
--   changed since the snapshot (permit_count changes it always), and permit_anchor is error 40001.
-- A release or a loss that is not committed yet: its units count still. A renewal, extension or guard changes no units.
-- A permit that has expired counts until it is deleted, so that its holder's last renewal and its deletion are decided by
--   the permit's own row: permit_purge.

-- A name whose row is made between the first two: who has not locked it must not count, or two would. So permit_anchor
--   leaves the taker's term $3 in a setting of the transaction, when the row is locked (that is why it is a sub-select), and
--   permit_take grants only who finds it there.

-- The anchor is the row of the newest generation, as of every lock, and each 128th take moves it on (permit_count). Two never have two
-- anchors locked: whoever waits for one that moves finds none. Then a token is noted in the anchor, counted_from, and the
-- tokens of those permits below it that are still there, counted_too. Only takes, which have the anchor locked, add permits, and each
-- has a higher token. So all permits of the name are at or above counted_from, or in counted_too: those are looked at, and none
-- of the dead ones below. Of many permits the lowest 16 are in counted_too, and counted_from is the next one: many are counted faster
-- one behind the other. A fresh anchor counts from 0. (OFFSET 0: each of counted_too is looked up by itself.)

-- No row: the name has none, is used with another strategy, or its anchor has moved on just now.
-- name: permit_anchor
/* dies with the machine */ SELECT set_config('rowlock.anchor', $3::text, true)
FROM (
  SELECT 1 FROM rowlock_locks
  WHERE name = $1 AND strategy = $2 AND term IS DISTINCT FROM 'name'
    AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  FOR UPDATE) AS locked

-- $1 to $11 as lock_take; the token rises as it has it. $12: how many units. $13: the limit that the taker was told; null: the
-- one that was set. $14: the taker's own intent; null: it obeys none. $15: the term of its own that this one is to replace, and that
-- does not count; null: none. If that is not there any more, or is revoked, nothing is taken: somebody may have come in between.
-- An intent is the units that the head of the line waits for: nobody else takes those. One that ends more than 2 s ahead is
-- none: the clock went back (C44).
-- Where row-level security may hide permits from this role, nothing is taken: what it can't see it would not count (C34). That is
-- decided here, because whoever reads the table keeps its policies from being changed meanwhile.
-- name: permit_take
INSERT INTO rowlock_permits (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, hard_until, note, longest, longest_term, units, told)
SELECT l.name, l.strategy, $3,
  greatest(
    l.token + 1,
    l.counted_from,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    pulse.base + 1,
    CASE WHEN l.token = 0 THEN (
      SELECT 1 + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1))
      FROM rowlock_meta AS m WHERE m.id = 1) END),
  $4, $5::bigint, $6, $7::bigint, $8::bigint, $9,
  clock_timestamp(),
  least(clock_timestamp() + $8::bigint * interval '1 millisecond',
        clock_timestamp() + $10::bigint * interval '1 millisecond'),
  clock_timestamp() + $10::bigint * interval '1 millisecond',
  $11, $8::bigint, $3, $12::bigint, coalesce($13::bigint, l.permit_limit)
FROM rowlock_locks AS l, <<pulse $8>> AS pulse
WHERE l.name = $1 AND l.strategy = $2
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  AND current_setting('rowlock.anchor', true) = $3::text
  AND $12::bigint
    + (SELECT coalesce(sum(p.units), 0) FROM rowlock_permits AS p
      WHERE p.name || '' = $1 AND p.token >= l.counted_from AND p.term IS DISTINCT FROM $15::text)
    + (SELECT coalesce(sum(p.units), 0) FROM unnest(l.counted_too) AS t(token),
      LATERAL (SELECT o.* FROM rowlock_permits AS o WHERE o.name || '' = $1 AND o.token = t.token OFFSET 0) AS p WHERE p.term IS DISTINCT FROM $15::text)
    + CASE WHEN l.intent_term <> $14::text AND l.intent_until > clock_timestamp()
             AND l.intent_until <= clock_timestamp() + interval '2 seconds' THEN l.intent_units ELSE 0 END
    <= coalesce($13::bigint, l.permit_limit)
  AND ($15::text IS NULL
    OR EXISTS (SELECT 1 FROM rowlock_permits AS mine WHERE mine.name = $1 AND mine.term = $15 AND NOT mine.revoked))
  AND CASE WHEN row_security_active('rowlock_permits'::regclass)
    THEN NOT EXISTS (SELECT 1 FROM pg_policy AS o WHERE o.polrelid = 'rowlock_permits'::regclass AND NOT o.polpermissive)
      AND EXISTS (SELECT 1 FROM pg_policy AS o WHERE o.polrelid = 'rowlock_permits'::regclass AND o.polpermissive AND o.polcmd = '*'
        AND pg_get_expr(o.polqual, o.polrelid) = 'true'
        AND coalesce(pg_get_expr(o.polwithcheck, o.polrelid), 'true') = 'true'
        AND EXISTS (SELECT 1 FROM unnest(o.polroles) AS r WHERE r = 0 OR pg_has_role(r, 'usage')))
    ELSE true END
RETURNING token

-- If permit_take has made the permit $2: the anchor's token rises to its token, and its taker's intent $3 is over. What moves on from
-- generation 0 leaves the row there that keeps the name, as lock_release has it.
-- name: permit_count
WITH counted AS (
  UPDATE rowlock_locks AS l SET
    token = greatest(l.token, p.token),
    expires_at = clock_timestamp(),
    intent_until = CASE WHEN l.intent_term = $3 THEN NULL ELSE l.intent_until END,
    takes = l.takes + 1,
    generation = CASE WHEN l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END,
    (counted_from, counted_too) = (
      SELECT coalesce(lowest.tokens[17], p.token), lowest.tokens[1:16]
      FROM (
        SELECT ARRAY(
          SELECT o.token FROM rowlock_permits AS o WHERE o.name || '' = $1 AND o.token >= l.counted_from AND o.token < p.token
          UNION
          SELECT o.token FROM unnest(l.counted_too) AS t(token),
            LATERAL (SELECT q.token FROM rowlock_permits AS q WHERE q.name || '' = $1 AND q.token = t.token OFFSET 0) AS o
          ORDER BY 1 LIMIT 17)) AS lowest(tokens)
      WHERE l.takes % 128 = 127
      UNION ALL
      SELECT l.counted_from, l.counted_too WHERE l.takes % 128 <> 127)
  FROM rowlock_permits AS p
  WHERE l.name = $1 AND l.strategy = p.strategy AND p.name = $1 AND p.term = $2
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  RETURNING l.name, l.generation, l.takes, l.strategy, l.token, l.permit_limit, l.counted_from, l.counted_too),
keeps_name AS (
  INSERT INTO rowlock_locks (name, strategy, term, token, acquired_at, expires_at, permit_limit, counted_from, counted_too)
  SELECT c.name, c.strategy, 'name', c.token, clock_timestamp(), timestamptz '9999-12-31 00:00:00+00', c.permit_limit, c.counted_from,
    c.counted_too
  FROM counted AS c WHERE c.generation = 1 AND c.takes = 128)
SELECT c.generation FROM counted AS c

-- If permit_take has made the permit $2: the one that it replaces ($3) is over.
-- name: permit_replaced
DELETE FROM rowlock_permits AS old USING rowlock_permits AS new
WHERE old.name = $1 AND old.term = $3 AND new.name = $1 AND new.term = $2

-- The token of a permit, for a taker whose reply was lost.
-- name: permit_token
SELECT token FROM rowlock_permits WHERE name = $1 AND term = $2

-- How things stand: the anchor's strategy, the limit that was set, the units of those that have not expired, of all, and those that
-- somebody else than $2 intends to take (null: none). A plain read: decides only who need not try.
-- name: permit_look
SELECT l.strategy, l.permit_limit, p.live, p.units,
  CASE WHEN l.intent_term <> $2::text AND l.intent_until > clock_timestamp()
    AND l.intent_until <= clock_timestamp() + interval '2 seconds' THEN l.intent_units ELSE 0 END
FROM rowlock_locks AS l
CROSS JOIN LATERAL (
  SELECT coalesce(sum(o.units) FILTER (WHERE o.expires_at > clock_timestamp()), 0)::bigint AS live, coalesce(sum(o.units), 0)::bigint AS units
  FROM (
    SELECT q.units, q.expires_at FROM rowlock_permits AS q WHERE q.name || '' = $1 AND q.token >= l.counted_from
    UNION ALL
    SELECT q.units, q.expires_at FROM unnest(l.counted_too) AS t(token),
      LATERAL (SELECT o.* FROM rowlock_permits AS o WHERE o.name || '' = $1 AND o.token = t.token OFFSET 0) AS q) AS o) AS p
WHERE l.name = $1
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)

-- The head of the line says what it waits for: $3 units, under the id $4, for $5 milliseconds. Where there is no line ($5 null) it
-- does so in every other half second, and until that is over, if nobody else has: in the halves between nobody is kept from
-- anything. A hint: need not be flushed.
-- name: permit_intend
UPDATE rowlock_locks SET
  intent_units = $3::bigint,
  intent_term = $4,
  intent_until = CASE WHEN $5::bigint IS NULL
    THEN to_timestamp(ceil(extract(epoch FROM clock_timestamp()) * 2) / 2)
    ELSE clock_timestamp() + $5::bigint * interval '1 millisecond' END
WHERE name = $1 AND strategy = $2 AND term IS DISTINCT FROM 'name'
  AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  AND ($5::bigint IS NOT NULL
    OR (floor(extract(epoch FROM clock_timestamp()) * 2)::bigint % 2 = 1
      AND (intent_until IS NULL OR intent_term = $4 OR intent_until <= clock_timestamp()
        OR intent_until > clock_timestamp() + interval '2 seconds')))
RETURNING set_config('synchronous_commit', 'off', true)

-- Terms of $1 that have expired, 1000 at most. A plain read.
-- name: permit_expired
SELECT o.term
FROM rowlock_locks AS l
CROSS JOIN LATERAL (
  SELECT q.term, q.takeover, q.expires_at FROM rowlock_permits AS q WHERE q.name || '' = $1 AND q.token >= l.counted_from
  UNION ALL
  SELECT q.term, q.takeover, q.expires_at FROM unnest(l.counted_too) AS t(token),
    LATERAL (SELECT o.* FROM rowlock_permits AS o WHERE o.name || '' = $1 AND o.token = t.token OFFSET 0) AS q) AS o
WHERE l.name = $1
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  AND o.takeover = 'clock' AND o.expires_at <= clock_timestamp()
ORDER BY o.term LIMIT 1000

-- Deletes those of $1, JSON [{"name":..., "term":...}, ...], that have expired. By name and term, and skips what others have locked
-- (a guarded transaction of a holder that is late; another one that purges): so it waits for nobody (C42). A renewal that was
-- committed before: the row's newest version is locked, and has not expired. One that comes later finds no row: lost.
-- name: permit_purge
WITH due AS (
  SELECT p.name, p.term
  FROM json_to_recordset($1::json) AS w(name text, term text)
  JOIN rowlock_permits AS p ON p.name = w.name AND p.term = w.term
  WHERE p.takeover = 'clock' AND p.expires_at <= clock_timestamp()
  ORDER BY p.term
  FOR UPDATE OF p SKIP LOCKED)
DELETE FROM rowlock_permits AS p USING due
WHERE p.name = due.name AND p.term = due.term AND p.expires_at <= clock_timestamp()

-- As lock_release: need not be flushed, and tells whether others wait at the name's wait queue. (The word in quotes becomes the table's
-- quoted name.)
-- name: permit_release
/* dies with the machine */ DELETE FROM rowlock_permits WHERE name = $1 AND term = $2
RETURNING (NOT pg_try_advisory_xact_lock_shared(hashtextextended(name, 'rowlock_locks'::regclass::oid::bigint)))::int,
  set_config('synchronous_commit', 'off', true)

-- As lock_release_at_least, but only until then: after it, permit_release.
-- name: permit_release_at_least
UPDATE rowlock_permits SET
  term = $4,
  expires_at = least(acquired_at, clock_timestamp()) + $3::bigint * interval '1 millisecond',
  ttl = $3::bigint,
  longest = $3::bigint,
  longest_term = $4,
  owner_process = NULL,
  renewals = renewals + 1,
  hard_until = NULL
WHERE name = $1 AND term = $2 AND acquired_at + $3::bigint * interval '1 millisecond' > clock_timestamp()
RETURNING term

-- All of a name, or the one with the term $2.
-- name: permit_revoke
UPDATE rowlock_permits SET revoked = true WHERE name = $1 AND ($2::text IS NULL OR term = $2) RETURNING term

-- name: permit_revoke_now
DELETE FROM rowlock_permits WHERE name = $1 AND ($2::text IS NULL OR term = $2) RETURNING name

-- The limit for all who name none.
-- name: permit_set_limit
UPDATE rowlock_locks SET permit_limit = $3::bigint
WHERE name = $1 AND strategy = $2 AND term IS DISTINCT FROM 'name'
  AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
RETURNING name

-- As lock_list, $5 permits from the name $3 on, of that name those after the term $4; and what each has. $1: as $3 there, $2: as $4.
-- name: permit_list
SELECT name, left(strategy, 33), term, token, left(owner_host, 256), owner_pid, left(owner_process, 256), owner_thread,
  renewals, ttl, left(takeover, 33),
  CASE WHEN acquired_at IS NOT NULL THEN
    (extract(epoch FROM least(greatest(acquired_at, timestamptz '0001-01-01 00:00:00+00'),
      timestamptz '9999-12-31 00:00:00+00')) * 1000000)::bigint END AS acquired_us,
  ceil(extract(epoch FROM least(greatest(expires_at, timestamptz '0001-01-01 00:00:00+00'),
    timestamptz '9999-12-31 00:00:00+00') - clock_timestamp()) * 1000)::bigint AS expires_in_ms,
  revoked, left(note, 1024), hard_until <= clock_timestamp() AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms,
  units, told
FROM rowlock_permits
WHERE name >= $3 AND (name > $3 OR term > $4) AND name LIKE $2 ESCAPE '|'
  AND ($1::bigint = 0 OR acquired_at <= clock_timestamp() - $1::bigint * interval '1 millisecond')
ORDER BY name, term LIMIT $5::bigint

-- Units and limit of each permit of $1, or of all ($1 empty).
-- name: permit_units
SELECT name, term, units, told FROM rowlock_permits WHERE $1::text = '' OR name = $1

-- Several locks at once, all or none of them (strategy lease): lib/doc/all_at_once.md. Each is one statement, in autocommit at
-- READ COMMITTED, on the rows of a list of names, in the order of their names. all_take first locks those that it wants, and skips
-- what others have locked: so it waits for nobody, and nobody who waits for one of these rows has another that it needs.
-- Without SKIP LOCKED it would also keep a row locked whose condition, looked at again after the wait, failed: deadlocks.

-- Takes names of $1, JSON [{"name":..., "term":..., "thread":..., "old":..., "renewals":...}, ...], each with its own term:
-- those that may be taken, if these are $12 at least; so all or none, where $12 is their number. What may be taken is as
-- lock_take has it ("old" and "renewals" are its $13 and $14; each may be missing, and so may "thread", then it is $6), and
-- so are the tokens, of which $11 are drawn for each name.
-- A renewal, a take or a release of one of the rows that is under way: the row is skipped, and nothing is taken. One that was
-- committed after the snapshot: the row's newest version is locked, and the condition is looked at again. One that comes later
-- waits for this statement's end (a renewal skips the row). Two of these crosswise: at most one of them gets all.
-- Where the sub-select that counts finds fewer, the UPDATE meets no row; the locks are gone with the statement. The pulse is read
-- once, and not for each name.
-- name: all_take
/* dies with the machine */ WITH pulse AS MATERIALIZED <<pulse $7>>, free AS (
  SELECT l.name, l.generation, w.term, w.thread
  FROM json_to_recordset($1::json) AS w(name text, term text, thread bigint, old text, renewals bigint, incarnation bigint)
  JOIN rowlock_locks AS l ON l.name = w.name
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = w.name ORDER BY n.generation DESC LIMIT 1)
  WHERE w.name = w.name || '' AND l.strategy = $2 AND l.term IS DISTINCT FROM 'name'
    AND CASE WHEN w.old IS NULL
          THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())
          ELSE l.term = w.old AND CASE WHEN w.renewals IS NULL THEN NOT l.revoked ELSE l.renewals = w.renewals AND w.incarnation = <<incarnations >> END END
  ORDER BY l.name
  FOR UPDATE OF l SKIP LOCKED)
UPDATE rowlock_locks AS l SET
  term = free.term,
  token = CASE WHEN $11::bigint = 0 THEN l.token ELSE greatest(
    l.token + $11::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $11::bigint - 1,
    pulse.base + $11::bigint,
    CASE WHEN l.token = 0 THEN (
      SELECT $11::bigint + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name ORDER BY t.generation DESC LIMIT 1))
      FROM rowlock_meta AS m WHERE m.id = 1) END) END,
  owner_host = $3,
  owner_pid = $4::bigint,
  owner_process = $5,
  owner_thread = coalesce(free.thread, $6::bigint),
  renewals = 0,
  ttl = $7::bigint,
  takeover = $8,
  acquired_at = clock_timestamp(),
  expires_at = least(clock_timestamp() + $7::bigint * interval '1 millisecond',
                     clock_timestamp() + $9::bigint * interval '1 millisecond'),
  hard_until = clock_timestamp() + $9::bigint * interval '1 millisecond',
  revoked = false,
  note = $10,
  longest = $7::bigint,
  longest_term = free.term,
  takes = l.takes + 1,
  generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END
FROM free, pulse
WHERE l.name = free.name AND l.generation = free.generation AND (SELECT count(*) FROM free) >= $12::bigint
RETURNING l.name, l.token

-- Takes of $1 those that may be taken, as all_take does, for threads that do not depend on each other: lib/doc/together.md. A row that
-- another transaction has locked is skipped, and so is one that never had a token, as lock_next_take has it.
-- The row's version that the snapshot sees is found by its place. `xmax` is read from the page at that moment: where it is neither
-- nothing nor the version's own transaction (all_take locks a row before it writes it), another one has locked or written the row, or
-- did so last: skipped. One that comes between this and the write of the same row, right behind it: the statement waits for its end (a
-- take, a renewal: a flush; at most lock_timeout, and then nothing is taken), and skips the row, whose newest version is in another
-- place. A guarded transaction locks what was taken and committed, so its end is not waited for. A pass that locks all rows first, as
-- all_take needs it, costs a fifth of the time: lib/doc/together.md.
-- name: each_take
/* dies with the machine */ UPDATE rowlock_locks AS l SET
  term = w.term,
  token = CASE WHEN $11::bigint = 0 THEN l.token ELSE greatest(
    l.token + $11::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $11::bigint - 1,
    pulse.base + $11::bigint) END,
  owner_host = $3,
  owner_pid = $4::bigint,
  owner_process = $5,
  owner_thread = coalesce(w.thread, $6::bigint),
  renewals = 0,
  ttl = $7::bigint,
  takeover = $8,
  acquired_at = clock_timestamp(),
  expires_at = least(clock_timestamp() + $7::bigint * interval '1 millisecond',
                     clock_timestamp() + $9::bigint * interval '1 millisecond'),
  hard_until = clock_timestamp() + $9::bigint * interval '1 millisecond',
  revoked = false,
  note = $10,
  longest = $7::bigint,
  longest_term = w.term,
  takes = l.takes + 1,
  generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END
FROM <<pulse $7>> AS pulse,
  json_to_recordset($1::json) AS w(name text, term text, thread bigint),
  LATERAL (SELECT n.ctid FROM rowlock_locks AS n WHERE n.name = w.name ORDER BY n.generation DESC LIMIT 1) AS place
WHERE w.name = w.name || '' AND l.ctid = place.ctid AND (l.xmax = 0 OR l.xmax = l.xmin)
  AND l.strategy = $2 AND l.term IS DISTINCT FROM 'name' AND NOT (l.token = 0 AND $11::bigint > 0)
  AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
RETURNING l.name, l.token

-- Gives back what of $1, JSON [{"name":..., "term":...}, ...], is there and not locked by others; says which names, and as
-- lock_release whether others wait at each one's wait queue. What was skipped (a guarded transaction, a taker that looks) has to be
-- given back by itself. Need not be flushed, as lock_release. Rows are found, and skipped, as each_take does it.
-- name: all_release
/* dies with the machine */ UPDATE rowlock_locks AS l SET
  term = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN 'name' END,
  expires_at = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN timestamptz '9999-12-31 00:00:00+00' ELSE clock_timestamp() END
FROM json_to_recordset($1::json) AS w(name text, term text),
  LATERAL (SELECT n.ctid FROM rowlock_locks AS n WHERE n.name = w.name ORDER BY n.generation DESC LIMIT 1) AS place
WHERE w.name = w.name || '' AND l.ctid = place.ctid AND (l.xmax = 0 OR l.xmax = l.xmin) AND l.term = w.term
RETURNING l.name, (NOT pg_try_advisory_xact_lock_shared(hashtextextended(l.name, l.tableoid::bigint)))::int,
  set_config('synchronous_commit', 'off', true)

-- As lock_read, for the names of $1 (JSON as for all_take). A row that only keeps the name is none here: lock_insert_free puts one
-- beside it.
-- name: all_read
SELECT l.name, left(l.strategy, 33), left(l.term, 65), l.token, left(l.owner_host, 256), l.owner_pid, left(l.owner_process, 256),
  l.owner_thread, l.renewals, l.ttl, left(l.takeover, 33),
  CASE WHEN l.acquired_at IS NOT NULL THEN
    (extract(epoch FROM least(greatest(l.acquired_at, timestamptz '0001-01-01 00:00:00+00'),
      timestamptz '9999-12-31 00:00:00+00')) * 1000000)::bigint END AS acquired_us,
  ceil(extract(epoch FROM least(greatest(l.expires_at, timestamptz '0001-01-01 00:00:00+00'),
    timestamptz '9999-12-31 00:00:00+00') - clock_timestamp()) * 1000)::bigint AS expires_in_ms,
  l.revoked, left(l.note, 1024), l.hard_until <= clock_timestamp() AS hard_limit_reached,
  CASE WHEN l.longest_term = l.term THEN l.longest END AS longest_ms
FROM json_to_recordset($1::json) AS w(name text)
JOIN rowlock_locks AS l ON l.name = w.name AND l.term IS DISTINCT FROM 'name'
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = w.name ORDER BY n.generation DESC LIMIT 1)
WHERE w.name = w.name || ''
ORDER BY l.name

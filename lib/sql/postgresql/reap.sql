-- What the reaper runs; the same names, parameters and columns as in the other dialects. Each statement is a transaction
-- of its own at READ COMMITTED. Names are gone through in their order, a page at a time: look at a page; raise the floor
-- to its highest token; delete what of the page may go. What was true in one statement decides nothing in the next one:
-- the DELETE looks at everything again, on the row's newest version and under its lock.
--
-- Who may come in between, and what each of them sees (R: the reaper's DELETE, X: anybody else's statement on the row):
--
-- X has the row locked (a renewal, a take, a guarded or row_lock transaction, a DELETE, another reaper), not committed:
--   R skips it (SKIP LOCKED). R waits for no row, and so is part of no deadlock (P1).
-- X committed after R's snapshot, before R locks the row (renewed, taken, taken and given back): FOR UPDATE evaluates the
--   condition again on the newest version: a row that is held, or was given back just now, stays (P2, B24). Only `floor`
--   is still the snapshot's: an older, so a lower one; it only rises. A token that was drawn meanwhile may be above it,
--   and then the row stays, although it were old enough (B40).
-- X deleted the row and it was inserted again: R's snapshot does not show the new row.
-- X waits for the row while R deletes it, or comes just after: a take or draw finds no row, puts a fresh one there (token
--   0, no condition on it) and begins again with a new snapshot. That shows the fresh row, so it was taken after R's
--   commit, and shows the floor, too, which was committed before R began: the next token is above it (B4, B5, B39). The
--   order holds through a crash: the floor's commit is flushed before R is sent, and lies before R's in the log.
-- X is a renewal or guard that waits while R deletes an expired row: it finds no row: lost. R would have found it
--   unexpired, had X been first. Nothing that is held by the clock can be deleted: R asks what a take asks, or more.
-- X waits for an anchor (FOR UPDATE) whose last holder's transaction has ended: R may get there first; X finds no row,
--   which is not the lock, and begins again.
-- X is a take that draws the token of a fresh row and reads the name's row in rowlock_tokens: its snapshot shows that row,
--   or, if R had deleted it, the floor that is above it.
-- Two reapers: each row is deleted by one of them; the floor is the higher of both, whoever comes second.
-- The clock steps forward and back around R: what was expired or idle may be gone, as a take might have taken it; its
--   token is at or below the floor (B5).
--
-- An anchor of permits: NOT EXISTS sees those that were taken before R's snapshot. A take that comes later has the anchor locked, or
--   has written expires_at into it, which R looks at again: the anchor stays. One with a limit that somebody has set stays, too.
--
-- Of a name that has two rows the newest generation is looked at, and the row that keeps the name goes with it; if somebody has that
-- locked just then, in a later run, when it is alone. A take that puts a row above it writes to it in the same statement: so R compares
-- its `takes`, under its lock, with those of R's own snapshot. R first: that take finds none, and its row is the first one again.
--
-- What the clock says decides only for takeover 'clock': of a term that only watching may end no reaper can say that it
-- is over (B36). A row whose token is more than a day ahead of the clock (which was wrong when it was drawn) stays: its
-- token would lift the floor, and with it every fresh name's token, for as long as the clock was wrong.

-- The page of $2 names after $1, $3 milliseconds being idle: how many there are, the last one, how many are due of each
-- strategy, how many must stay because of takeover 'observed' and because their token is ahead, highest token of those
-- due. Read only; nothing is promised by it. And how many terms a clock that went back keeps: reap_kept. A `longest`
-- that nobody can mean (200 years) is none: one row that somebody has written to must not stop the reaper.
-- name: reap_locks_look
SELECT count(*), max(p.name),
  count(*) FILTER (WHERE p.due AND NOT p.ahead AND p.strategy = 'unique_insert'),
  count(*) FILTER (WHERE p.due AND NOT p.ahead AND p.strategy IN ('lease', 'once', 'quorum')),
  count(*) FILTER (WHERE p.due AND NOT p.ahead AND p.strategy = 'row_lock'),
  count(*) FILTER (WHERE p.term IS NOT NULL AND p.takeover <> 'clock' AND p.old),
  count(*) FILTER (WHERE p.due AND p.ahead),
  coalesce(max(p.token) FILTER (WHERE p.due AND NOT p.ahead), 0),
  count(*) FILTER (WHERE p.kept),
  count(*) FILTER (WHERE p.due AND NOT p.ahead AND p.strategy IN ('shared', 'semaphore'))
FROM (
  SELECT l.name, l.strategy, l.term, l.takeover, l.token, o.old,
    l.takeover = 'clock' AND l.longest_term = l.term
      AND CASE WHEN l.longest BETWEEN 1 AND 6311520000000
        THEN l.expires_at > clock_timestamp() + l.longest::double precision * interval '1 millisecond' ELSE false END AS kept,
    l.token > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 86400000000 AS ahead,
    o.old AND (l.term IS NULL OR (l.takeover = 'clock' AND l.strategy <> 'row_lock')) AS due
  FROM (
    SELECT n.name, n.strategy, CASE WHEN n.term <> 'name' THEN n.term END AS term, n.takeover, n.token, n.longest_term, n.longest,
      n.permit_limit, CASE WHEN n.term = 'name'
        THEN n.acquired_at ELSE n.expires_at END AS expires_at
    FROM rowlock_locks AS n
    WHERE n.name > $1
      AND n.generation = (SELECT m.generation FROM rowlock_locks AS m WHERE m.name = n.name ORDER BY m.generation DESC LIMIT 1)
    ORDER BY n.name LIMIT $2::bigint) AS l,
  LATERAL (SELECT CASE l.strategy
      WHEN 'unique_insert' THEN l.term IS NULL OR l.expires_at <= clock_timestamp()
      WHEN 'lease' THEN l.expires_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'
      WHEN 'once' THEN l.expires_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'
      WHEN 'quorum' THEN l.expires_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'
      WHEN 'row_lock' THEN l.expires_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'
      ELSE l.strategy IN ('shared', 'semaphore') AND l.permit_limit IS NULL
        AND l.expires_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'
        AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = l.name) END AS old) AS o
  ) AS p

-- $3 permits behind the one with name $1 and term $2, and whether each has expired $4 milliseconds ago. Read only. What is due is
-- deleted by permit_purge. (A name may have more of them than a page.)
-- name: reap_permits_look
SELECT p.name, p.term, (p.takeover = 'clock' AND p.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond')::int::bigint
FROM rowlock_permits AS p WHERE (p.name, p.term) > ($1, $2) ORDER BY p.name, p.term LIMIT $3::bigint

-- At least $1, for good; never falls. Before the DELETE, not in its transaction: whoever sees that the row is gone must see this.
-- name: reap_raise_floor
UPDATE rowlock_meta SET token_floor = $1::bigint WHERE id = 1 AND token_floor < $1::bigint

-- Of the names after $1 up to $2 at most $3 that may go, $4 milliseconds being idle. `due` locks them on their newest
-- version; the rest is said again because only this WHERE is evaluated where the row is deleted. A negative $4 can't make a
-- live lock due: the first line of each condition is a take's.
-- name: reap_locks_delete
WITH due AS (
  SELECT l.name, l.generation FROM rowlock_locks AS l
  WHERE l.name > $1 AND l.name <= $2
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = l.name ORDER BY n.generation DESC LIMIT 1)
    AND (l.term IS NULL OR l.term = 'name' OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
    AND CASE WHEN l.term = 'name' THEN l.acquired_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
        AND l.generation = 0 AND l.expires_at = timestamptz '9999-12-31 00:00:00+00'
        AND l.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = l.name AND o.generation = 0)
      ELSE CASE l.strategy
      WHEN 'unique_insert' THEN true
      WHEN 'lease' THEN l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      WHEN 'once' THEN l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      WHEN 'quorum' THEN l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      WHEN 'row_lock' THEN l.term IS NULL AND l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      ELSE l.strategy IN ('shared', 'semaphore') AND l.term IS NULL AND l.permit_limit IS NULL
        AND l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
        AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = l.name) END END
    AND l.token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 86400000000
    AND l.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
  ORDER BY l.name LIMIT $3::bigint
  FOR UPDATE OF l SKIP LOCKED),
gone AS (
  DELETE FROM rowlock_locks AS l USING due
  WHERE l.name = due.name AND l.generation = due.generation AND l.name > $1 AND l.name <= $2
    AND (l.term IS NULL OR l.term = 'name' OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
    AND CASE WHEN l.term = 'name' THEN l.acquired_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
        AND l.generation = 0 AND l.expires_at = timestamptz '9999-12-31 00:00:00+00'
        AND l.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = l.name AND o.generation = 0)
      ELSE CASE l.strategy
      WHEN 'unique_insert' THEN true
      WHEN 'lease' THEN l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      WHEN 'once' THEN l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      WHEN 'quorum' THEN l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      WHEN 'row_lock' THEN l.term IS NULL AND l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
      ELSE l.strategy IN ('shared', 'semaphore') AND l.term IS NULL AND l.permit_limit IS NULL
        AND l.expires_at <= clock_timestamp() - $4::bigint * interval '1 millisecond'
        AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = l.name) END END
    AND l.token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 86400000000
    AND l.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
  RETURNING l.name, l.generation, l.strategy),
kept AS (
  SELECT k.name FROM gone JOIN rowlock_locks AS k ON k.name = gone.name AND k.generation = 0 AND gone.generation > 0
  WHERE k.term = 'name' AND k.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = k.name AND o.generation = 0)
  FOR UPDATE OF k SKIP LOCKED),
gone_too AS (
  DELETE FROM rowlock_locks AS l USING kept WHERE l.name = kept.name AND l.generation = 0 AND l.term = 'name')
SELECT strategy FROM gone

-- Terms of the names after $1 up to $2, $3 at most, whose expiry is further away than they can have set it: the clock went
-- back (C5). The reaper watches them. Read only.
-- name: reap_kept
SELECT l.name, l.strategy, l.term, l.renewals, l.longest FROM rowlock_locks AS l
WHERE l.name > $1 AND l.name <= $2 AND l.takeover = 'clock' AND l.longest_term = l.term
  AND CASE WHEN l.longest BETWEEN 1 AND 6311520000000
        THEN l.expires_at > clock_timestamp() + l.longest::double precision * interval '1 millisecond' ELSE false END
ORDER BY l.name LIMIT $3::bigint

-- Ends a term that was watched for long enough: exactly that one, if it was renewed no more ($3). Whoever changed the row
-- meanwhile changed its term or its renewals, and after a wait for the row that is looked at again: no row. It is one row
-- in autocommit, so that nobody waits for what this one holds.
-- name: reap_end_lease
UPDATE rowlock_locks SET term = NULL, expires_at = clock_timestamp()
WHERE name = $1 AND term = $2 AND renewals = $3::bigint AND $4::bigint = <<incarnations >> AND strategy IN ('lease', 'once', 'quorum') AND takeover = 'clock'
  AND longest_term = term AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > clock_timestamp() + longest::double precision * interval '1 millisecond' ELSE false END

-- As unique_insert gives back: the name's last token is in rowlock_tokens.
-- name: reap_end_insert
DELETE FROM rowlock_locks
WHERE name = $1 AND term = $2 AND renewals = $3::bigint AND $4::bigint = <<incarnations >> AND strategy = 'unique_insert' AND takeover = 'clock'
  AND longest_term = term AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > clock_timestamp() + longest::double precision * interval '1 millisecond' ELSE false END

-- The same for rowlock_tokens: how many, the last name, how many are due, highest token of those. A token is at least the
-- microseconds since 1970 when it was drawn, so that it tells its own age. A row that only keeps its name goes with the other.
-- name: reap_tokens_look
SELECT count(*), max(p.name), count(*) FILTER (WHERE p.due), coalesce(max(p.token) FILTER (WHERE p.due), 0)
FROM (
  SELECT t.name, t.token,
    t.token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $3::bigint * 1000 AS due
  FROM (
    SELECT n.name, n.token FROM rowlock_tokens AS n
    WHERE n.name > $1
      AND n.generation = (SELECT m.generation FROM rowlock_tokens AS m WHERE m.name = n.name ORDER BY m.generation DESC LIMIT 1)
    ORDER BY n.name LIMIT $2::bigint) AS t) AS p

-- name: reap_tokens_delete
WITH due AS (
  SELECT t.name, t.generation FROM rowlock_tokens AS t
  WHERE t.name > $1 AND t.name <= $2
    AND t.generation = (SELECT n.generation FROM rowlock_tokens AS n WHERE n.name = t.name ORDER BY n.generation DESC LIMIT 1)
    AND t.token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $4::bigint * 1000
    AND t.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
  ORDER BY t.name LIMIT $3::bigint
  FOR UPDATE OF t SKIP LOCKED),
gone AS (
  DELETE FROM rowlock_tokens AS t USING due
  WHERE t.name = due.name AND t.generation = due.generation AND t.name > $1 AND t.name <= $2
    AND t.token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $4::bigint * 1000
    AND t.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
  RETURNING t.name, t.generation),
gone_too AS (
  DELETE FROM rowlock_tokens AS t USING gone WHERE t.name = gone.name AND t.generation = 0 AND gone.generation > 0)
SELECT 1::bigint FROM gone

-- name: reap_floor
SELECT token_floor FROM rowlock_meta WHERE id = 1

-- A run that took $1 milliseconds has ended just now.
-- name: reap_record
UPDATE rowlock_reaper SET
  started_at = clock_timestamp() - $1::bigint * interval '1 millisecond',
  finished_at = clock_timestamp(), host = $2, pid = $3::bigint, report = $4
WHERE id = 1

-- name: reap_last
SELECT (extract(epoch FROM started_at) * 1000000)::bigint AS started_us,
  (extract(epoch FROM finished_at) * 1000000)::bigint AS finished_us, host, pid, report
FROM rowlock_reaper WHERE id = 1

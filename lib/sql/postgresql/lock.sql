-- Statements on the lock's own row. Every session runs them in autocommit at READ COMMITTED: after a wait for the
-- row, PostgreSQL evaluates WHERE and SET again on the row's newest version, but sub-selects still see the
-- statement's old snapshot. So whether a lock may be taken is decided by the lock's own row alone, and the time is
-- clock_timestamp(), which is read again, never now(), which stands still from the transaction's start.

-- Takes a free row, or one whose term has expired by the clock ($13 null); or exactly the term $13, if it is still
-- there: if its renewals are still $14 (takeover::observed, and a term that a clock which went back keeps, C5:
-- lib/doc/lease.md); or ($14 null) if its explicit owner comes back and no operator has asked for it back (C33).
-- A row that never had a term (token 0) also rises above the floor and the name's entry in rowlock_tokens. It
-- may read them from the statement's snapshot: the reaper raised the floor before it deleted the name's former row,
-- and a snapshot that sees the fresh row sees that, too.
-- $12: how many tokens are drawn at once, 0 for none. Every arm rises by that many, or the lowest of them would not be above
-- all that were ever drawn (C45): lib/doc/hand_on.md.
-- fragment: taking
/* dies with the machine */ UPDATE rowlock_locks AS l SET
  term = $3,
  token = CASE WHEN $12::bigint = 0 THEN l.token ELSE greatest(
    l.token + $12::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $12::bigint - 1,
    pulse.base + $12::bigint<<>>) END,
  owner_host = $4,
  owner_pid = $5::bigint,
  owner_process = $6,
  owner_thread = $7::bigint,
  renewals = 0,
  ttl = $8::bigint,
  takeover = $9,
  acquired_at = clock_timestamp(),
  expires_at = least(clock_timestamp() + $8::bigint * interval '1 millisecond',
                     clock_timestamp() + $10::bigint * interval '1 millisecond'),
  hard_until = clock_timestamp() + $10::bigint * interval '1 millisecond',
  revoked = false,
  note = $11,
  longest = $8::bigint,
  longest_term = $3,
  takes = l.takes + 1,
  generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END
FROM <<pulse $8>> AS pulse
WHERE l.name = $1 AND l.strategy = $2 AND l.term IS DISTINCT FROM 'name'
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  AND CASE WHEN $13::text IS NULL
        THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())
        ELSE l.term = $13 AND CASE WHEN $14::bigint IS NULL THEN NOT l.revoked ELSE l.renewals = $14::bigint AND $15::bigint = <<incarnations >> END END
-- end

-- Any row.
-- name: lock_take
<<taking ,
    CASE WHEN l.token = 0 THEN (
      SELECT $12::bigint + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1))
      FROM rowlock_meta AS m WHERE m.id = 1) END>>
RETURNING l.token

-- A row that has had a token, which keeps it above the floor: nearly each take, and two sub-selects less.
-- name: lock_next_take
<<taking >>
  AND NOT (l.token = 0 AND $12::bigint > 0)
RETURNING l.token

-- A free row for a name that has none, so that lock_take finds one; of generation 1 where only the row is there that keeps the name
-- (lock_release, or a hand that has deleted the other), if that is of the same strategy. Never fails on a duplicate. Two at once:
-- the second waits for the first one's write to the row that keeps the name, and sees by `takes`, which its sub-select has from
-- before the wait, that somebody has been there: it puts no row, as its INSERT is of generation 0 then. So a row of generation 1
-- comes only where there is no higher one. The reaper, which may be about to delete the row that keeps the name, goes by `takes`, too.
-- The token is above the floor, which the reaper raised before it deleted the lock's former row.
-- name: lock_insert_free
/* dies with the machine */ WITH kept AS (
  UPDATE rowlock_locks AS l SET acquired_at = clock_timestamp(), takes = l.takes + 1
  WHERE l.name = $1 AND l.generation = 0 AND l.term = 'name' AND l.strategy = $2
    AND l.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = $1 AND o.generation = 0)
    AND (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1) = 0
  RETURNING greatest(l.token, (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)) AS token, l.revoked, l.longest,
    l.longest_term, l.permit_limit, l.counted_from, l.counted_too)
INSERT INTO rowlock_locks (name, generation, strategy, token, expires_at, revoked, longest, longest_term, permit_limit, counted_from,
  counted_too)
SELECT $1, CASE WHEN kept.token IS NULL THEN 0 ELSE 1 END, $2, coalesce(kept.token, 0), clock_timestamp(),
  coalesce(kept.revoked, false), kept.longest, kept.longest_term, kept.permit_limit, coalesce(kept.counted_from, 0), kept.counted_too
FROM (SELECT 1) AS one LEFT JOIN kept ON true
ON CONFLICT DO NOTHING

-- Asked only when a row could neither be seen nor put there: whether row-level security may hide rows from this role (no
-- policy lets it see and write all of them, or a restrictive one narrows that), as doctor_tables has it. (The word in quotes
-- becomes the table's quoted name.)
-- name: lock_hidden
SELECT row_security_active(t.oid) AND (
  EXISTS (SELECT 1 FROM pg_policy AS p WHERE p.polrelid = t.oid AND NOT p.polpermissive)
  OR NOT EXISTS (SELECT 1 FROM pg_policy AS p WHERE p.polrelid = t.oid AND p.polpermissive AND p.polcmd = '*'
    AND pg_get_expr(p.polqual, p.polrelid) = 'true'
    AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'
    AND EXISTS (SELECT 1 FROM unnest(p.polroles) AS r WHERE r = 0 OR pg_has_role(r, 'usage'))))
FROM pg_class AS t WHERE t.oid = 'rowlock_locks'::regclass

-- Times that can't be calculated with (infinity, 294276) come as the year 1 or 9999: one such row must not fail the others.
-- (Of permits, of which a name may have several: the one that ends first.)
-- name: lock_read
SELECT name, left(strategy, 33), /* of a lock */ CASE WHEN term <> 'name' THEN /* end */ left(term, 65) /* of a lock */ END /* end */, token, left(owner_host, 256), owner_pid, left(owner_process, 256), owner_thread,
  renewals, ttl, left(takeover, 33),
  CASE WHEN acquired_at IS NOT NULL THEN
    (extract(epoch FROM least(greatest(acquired_at, timestamptz '0001-01-01 00:00:00+00'),
      timestamptz '9999-12-31 00:00:00+00')) * 1000000)::bigint END AS acquired_us,
  ceil(extract(epoch FROM least(greatest(/* of a lock */ CASE WHEN term = 'name' THEN acquired_at ELSE /* end */ expires_at /* of a lock */ END /* end */, timestamptz '0001-01-01 00:00:00+00'),
    timestamptz '9999-12-31 00:00:00+00') - clock_timestamp()) * 1000)::bigint AS expires_in_ms,
  revoked, left(note, 1024), hard_until <= clock_timestamp() AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms
FROM rowlock_locks
WHERE name = $1
  /* of a lock */ AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1) /* end */
ORDER BY expires_at LIMIT 1

-- The last name of the $2 rows from the name $1 on: where a part of the list ends, whatever of it is shown.
-- name: lock_list_end
SELECT max(w.name) FROM (SELECT name FROM rowlock_locks WHERE name >= $1 ORDER BY name LIMIT $2::bigint) AS w

-- $7 rows of the names from $5 to $6 that are LIKE $4. $1: 0 for the held ones, 1 for idle rows too. $2: 1 for records that work
-- is done, too. $3: only what has been held for so many milliseconds, or 0. A text that only a hand, or another program, can have
-- made so long is cut: no row may keep the others from being read.
-- name: lock_list
SELECT name, left(strategy, 33), CASE WHEN term <> 'name' THEN left(term, 65) END, token, left(owner_host, 256), owner_pid, left(owner_process, 256), owner_thread,
  renewals, ttl, left(takeover, 33),
  CASE WHEN acquired_at IS NOT NULL THEN
    (extract(epoch FROM least(greatest(acquired_at, timestamptz '0001-01-01 00:00:00+00'),
      timestamptz '9999-12-31 00:00:00+00')) * 1000000)::bigint END AS acquired_us,
  ceil(extract(epoch FROM least(greatest(CASE WHEN term = 'name' THEN acquired_at ELSE expires_at END, timestamptz '0001-01-01 00:00:00+00'),
    timestamptz '9999-12-31 00:00:00+00') - clock_timestamp()) * 1000)::bigint AS expires_in_ms,
  revoked, left(note, 1024), hard_until <= clock_timestamp() AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms
FROM rowlock_locks AS l
WHERE name >= $5 AND name <= $6 AND name LIKE $4 ESCAPE '|' AND (term <> 'name' OR $1::bigint = 1)
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = l.name ORDER BY n.generation DESC LIMIT 1)
  AND ($2::bigint = 1 OR coalesce(term, 'name') = 'name' OR strategy <> 'once' OR owner_process IS NOT NULL OR renewals <> 0)
  AND ($3::bigint = 0 OR (term <> 'name' AND acquired_at <= clock_timestamp() - $3::bigint * interval '1 millisecond'))
ORDER BY name LIMIT $7::bigint

-- Who waits for the locks among the names of $1 (a JSON list) that are held: each lock once with nulls, and once with each
-- session that waits. For people, who see
-- a picture of one moment; nothing is decided by it. pg_locks is readable by everybody; of other roles' sessions
-- pg_stat_activity tells the pid alone.
-- At a wait queue (lib/backend/postgresql/wait_queue.cpp): who is in the line, and who has the wait queue but for the holder, whom the mark of
-- the row's owner tells, or of a permit's (a lock of row_lock has none: of its wait queues only the line counts). At an anchor: all who wait for a
-- row want its tuple's lock, which the first of them has.
-- name: lock_waiters
WITH locked AS (
  SELECT k.pid, k.locktype, k.mode, k.granted, k.relation, k.page, k.tuple,
    (k.classid::bigint << 32) | k.objid::bigint AS key
  FROM pg_locks AS k
  WHERE k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND (k.locktype = 'tuple' OR (k.locktype = 'advisory' AND k.objsubid = 1))),
held AS (
  SELECT l.name, l.strategy, l.tableoid, l.ctid, hashtextextended(l.name, l.tableoid::bigint) AS queue,
    ARRAY(SELECT hashtextextended(o.process || '/' || l.name, - l.tableoid::bigint) FROM (
      SELECT l.owner_process AS process
      UNION SELECT p.owner_process FROM rowlock_permits AS p WHERE p.name = l.name) AS o) AS marks
  FROM json_array_elements_text($1::json) AS w(name) JOIN rowlock_locks AS l ON l.name = w.name
  WHERE l.term <> 'name' OR (l.term IS NULL AND l.strategy IN ('row_lock', 'shared', 'semaphore'))),
waits AS (
  SELECT h.name, k.pid FROM held AS h JOIN locked AS k
    ON k.locktype = 'advisory' AND k.key = h.queue AND k.mode = 'ExclusiveLock'
  WHERE NOT k.granted OR (h.strategy <> 'row_lock' AND NOT EXISTS (
    SELECT 1 FROM locked AS m
    WHERE m.locktype = 'advisory' AND m.key = ANY (h.marks) AND m.mode = 'ShareLock' AND m.pid = k.pid))
  UNION
  SELECT h.name, k.pid FROM held AS h JOIN locked AS k
    ON k.locktype = 'tuple' AND k.relation = h.tableoid AND format('(%s,%s)', k.page, k.tuple)::tid = h.ctid
  WHERE h.strategy = 'row_lock')
SELECT h.name, NULL::bigint, NULL::text, NULL::text FROM held AS h
UNION ALL
SELECT w.name, w.pid::bigint, host(a.client_addr), a.application_name
FROM waits AS w LEFT JOIN pg_stat_activity AS a ON a.pid = w.pid

-- $1: JSON [{"name":..., "term":...}, ...]. By name and term alone, never shortens, never passes the hard limit,
-- never prolongs a revoked row; rows that a transaction has locked are skipped, not waited for, and in one order.
-- `name = name || ''` is true of each name. The planner counts with one row of 200 for it, and so takes the list for short:
-- it looks each name up by its key, and reads no dead rows of others. Each statement on a list has it.
-- name: lock_renew
/* dies with the machine */ WITH due AS (
  SELECT l.name, /* of a lock */ l.generation, /* end */ l.term
  FROM json_to_recordset($1::json) AS wanted(name text, term text)
  JOIN rowlock_locks AS l ON l.name = wanted.name AND l.term = wanted.term
    /* of a lock */ AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted.name ORDER BY n.generation DESC LIMIT 1) /* end */
  WHERE wanted.name = wanted.name || '' AND NOT l.revoked AND (l.hard_until IS NULL OR l.hard_until > clock_timestamp())
  ORDER BY l.name
  FOR UPDATE OF l SKIP LOCKED)
UPDATE rowlock_locks AS l SET
  expires_at = greatest(l.expires_at,
                        least(clock_timestamp() + l.ttl * interval '1 millisecond', l.hard_until)),
  renewals = l.renewals + 1
FROM due WHERE l.name = due.name /* of a lock */ AND l.generation = due.generation /* end */ AND l.term = due.term
RETURNING l.term

-- The rows of $1 (JSON as for lock_renew) that still have the term; a term that is missing is lost.
-- name: lock_check
SELECT l.term, l.revoked, coalesce(l.hard_until <= clock_timestamp(), false) AS hard_limit_reached
FROM json_to_recordset($1::json) AS wanted(name text, term text)
JOIN rowlock_locks AS l ON l.name = wanted.name AND l.term = wanted.term
  /* of a lock */ AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted.name ORDER BY n.generation DESC LIMIT 1) /* end */
WHERE wanted.name = wanted.name || ''

-- For takeover::observed the ttl grows along: takers watch the row for as long as that. `longest` grows always (C5, C57): an
-- expiry that this term has set is never further away than that, or the clock went back since.
-- name: lock_extend
UPDATE rowlock_locks SET
  expires_at = greatest(expires_at, least(clock_timestamp() + $3::bigint * interval '1 millisecond', hard_until)),
  ttl = CASE WHEN takeover = 'observed' THEN greatest(ttl, $3::bigint) ELSE ttl END,
  longest = greatest(longest, $3::bigint),
  renewals = renewals + 1
WHERE name = $1 AND term = $2 AND NOT revoked AND (hard_until IS NULL OR hard_until > clock_timestamp())
  /* of a lock */ AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1) /* end */
RETURNING term

-- Changes the note of a term, for people and for those who watch an election. Who can come in between: a renewal changes other
-- columns, whichever of the two is first. A release, a take-over and a revocation by force leave another term in the row, or
-- none: if this waited behind one of them, WHERE is looked at again on the row's newest version and meets nothing; if it was
-- first, their terms have notes of their own. A transaction that requires the lock has the row locked until its end: this waits
-- for it, within the session's own limit.
-- name: lock_set_note
UPDATE rowlock_locks SET note = $3
WHERE name = $1 AND term = $2
  /* of a lock */ AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1) /* end */
RETURNING term

-- The one statement whose commit need not be flushed: a release that a crash forgets leaves the lock to its expiry. It tells,
-- too, whether others wait at the name's wait queue: an advisory lock that somebody has, or waits for, can't be shared. (Until the
-- commit this session shares it then, and who comes to the wait queue meanwhile waits for that.)
-- After 128 takes the row only keeps the name from then on (lib/doc/postgresql.md): the next taker puts another row there, of
-- generation 1. Who waits for the row meanwhile meets the term 'name', which is no other's and does not expire.
-- name: lock_release
/* dies with the machine */ UPDATE rowlock_locks SET
  term = CASE WHEN generation = 0 AND takes >= 128 THEN 'name' END,
  expires_at = CASE WHEN generation = 0 AND takes >= 128 THEN timestamptz '9999-12-31 00:00:00+00' ELSE clock_timestamp() END
WHERE name = $1 AND term = $2
  AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
RETURNING (NOT pg_try_advisory_xact_lock_shared(hashtextextended(name, tableoid::bigint)))::int,
  set_config('synchronous_commit', 'off', true)

-- Whether no transaction has the row of a term locked; for callers that must not wait. The commit that ends the lock need not be
-- flushed.
-- name: lock_idle
SELECT set_config('synchronous_commit', 'off', true) FROM rowlock_locks
WHERE name = $1 AND term = $2
  /* of a lock */ AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1) /* end */
FOR UPDATE SKIP LOCKED

-- Which sessions have the rows of the names $1 (a JSON list) locked, for people: for a message when a renewal has been kept from
-- the row for some time, and beside a list.
-- xmax is the transaction that locked or changed it last. Of a row that several have locked in shared mode it is another
-- kind of number: so the session must have used the table. A plain read, which waits for nobody; any role may read it. [C75]
-- The few open transactions come first: mostly there are none that use the table, and no row is read.
-- name: lock_locked_by
WITH locked AS MATERIALIZED (
  SELECT k.pid, k.locktype, k.transactionid, k.relation FROM pg_locks AS k
  WHERE k.locktype = 'relation' OR (k.locktype = 'transactionid' AND k.granted AND k.mode = 'ExclusiveLock')),
holds AS MATERIALIZED (
  SELECT DISTINCT t.pid, t.transactionid, r.relation
  FROM locked AS t JOIN locked AS r ON r.pid = t.pid AND r.locktype = 'relation'
  WHERE t.locktype = 'transactionid'),
named AS MATERIALIZED (
  SELECT l.name, l.xmax AS locker, l.tableoid AS relation
  FROM json_array_elements_text($1::json) AS w(name) JOIN rowlock_locks AS l ON l.name = w.name
  WHERE w.name = w.name || ''
    /* of a lock */ AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = l.name ORDER BY n.generation DESC LIMIT 1) /* end */)
SELECT n.name, a.pid::bigint, host(a.client_addr), a.application_name::text, a.usename::text
FROM holds AS h
JOIN named AS n ON n.locker = h.transactionid AND n.relation = h.relation
JOIN pg_stat_activity AS a ON a.pid = h.pid

-- For a lock that is given back earlier than $3 milliseconds after it was taken. Until then the row has the term $4, which
-- nobody knows, and no owner_process: otherwise the same explicit owner would take it over. If the clock went back since the
-- lock was taken, the time counts from now (C5).
-- It ends by the clock, also where the lock was `observed`: who tries once could not have it otherwise. Nobody trusts the term
-- $4, so that no two own the lock by that, whatever the clock does.
-- name: lock_release_at_least
UPDATE rowlock_locks SET
  term = CASE WHEN acquired_at + $3::bigint * interval '1 millisecond' > clock_timestamp() THEN $4 END,
  expires_at = greatest(clock_timestamp(), least(acquired_at, clock_timestamp()) + $3::bigint * interval '1 millisecond'),
  ttl = least($3::bigint,
    greatest(0, ceil(extract(epoch FROM acquired_at - clock_timestamp()) * 1000)::bigint + $3::bigint)),
  longest = $3::bigint,
  longest_term = $4,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL
WHERE name = $1 AND term = $2
  AND generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
RETURNING term

-- name: lock_revoke
UPDATE rowlock_locks SET revoked = true WHERE name = $1 AND term = $2 RETURNING term

-- Takes the term $4 away from its holder (C62). The row gets the term $2, which its holder and all takers find, for $3 ms at most.
-- The session that has put it there gives it back by lock_release or unique_release before that, after base::closed_for by its own
-- clock. So all that goes from thread to thread comes before the next grant. Should the session die, the row ends by the server's
-- clock. No owner_process: no owner comes back to it. Not a quorum's, whose term never goes to another thread.
-- name: lock_revoke_now
UPDATE rowlock_locks SET
  term = $2,
  expires_at = clock_timestamp() + $3::bigint * interval '1 millisecond',
  ttl = $3::bigint,
  longest = $3::bigint,
  longest_term = $2,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL,
  revoked = true
WHERE name = $1 AND term = $4 RETURNING name

-- Strategy unique_insert. The INSERT waits for another one of the same name that is not committed yet, and for a DELETE; of
-- any number of sessions one gets the row, the others change nothing. It never fails on a duplicate: that would fill the
-- server's log, and end the transaction. Parameters as in lock_take.
-- name: unique_take
/* dies with the machine */ INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, hard_until, note, longest, longest_term)
SELECT $1, $2, $3, 0, $4, $5::bigint, $6, $7::bigint, $8::bigint, $9,
  clock_timestamp(),
  least(clock_timestamp() + $8::bigint * interval '1 millisecond',
        clock_timestamp() + $10::bigint * interval '1 millisecond'),
  clock_timestamp() + $10::bigint * interval '1 millisecond',
  $11, $8::bigint, $3
FROM <<pulse $8>> AS pulse
ON CONFLICT DO NOTHING

-- Before unique_take, in its transaction: deletes what may be taken, as lock_take has it. Whoever waits here for the row
-- (a renewal, another taker) has its condition looked at again afterwards: a row that was renewed meanwhile stays, and of
-- two that clear the second one finds nothing.
-- name: unique_clear
DELETE FROM rowlock_locks
WHERE name = $1 AND strategy = $2
  AND CASE WHEN $3::text IS NULL
        THEN term IS NULL OR (takeover = 'clock' AND expires_at <= clock_timestamp())
        ELSE term = $3 AND CASE WHEN $4::bigint IS NULL THEN NOT revoked ELSE renewals = $4::bigint AND $5::bigint = <<incarnations >> END END

-- Also on the program's own connection: see guard.sql for the operators.
-- name: unique_set_token
UPDATE rowlock_locks SET token = $3::bigint
WHERE name OPERATOR(pg_catalog.=) $1 AND term OPERATOR(pg_catalog.=) $2

-- A take of unique_insert in one round trip: BEGIN, unique_take, these two, COMMIT, sent together and run one after the
-- other, each with a snapshot of its own. Where unique_take made no row (it met one), neither finds the term $2, and nothing
-- is written: COMMIT flushes nothing.
-- First the name's entry in rowlock_tokens, if it has none. The reaper deleting the old entry just now: this waits for it. The
-- entry is there and the reaper deletes it afterwards: see at_once_draw.
-- name: at_once_entry
INSERT INTO rowlock_tokens (name, token)
SELECT l.name, 0 FROM rowlock_locks AS l WHERE l.name = $1 AND l.term = $2
ON CONFLICT DO NOTHING

-- Then the token, as token_draw has it, into the entry and into the row. This snapshot is younger than the row, and so than the
-- commit of whoever had the name before; and younger than the entry, so that it sees the floor that the reaper raised before
-- it deleted the former entry (B39). Whoever has the entry locked (the reaper) is waited for; if it is gone then, the
-- token is null, which the row does not take (23502): nothing is done, and the caller goes on step by step. So it is if the entry
-- has moved on while this waited.
-- name: at_once_draw
WITH drawn AS (
  UPDATE rowlock_tokens SET
    token = greatest(
      token + 1,
      (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
      (SELECT m.token_floor + 1 FROM rowlock_meta AS m WHERE m.id = 1),
      1 + <<incarnation >>),
    draws = draws + 1,
    generation = CASE WHEN draws % 128 = 127 THEN generation + 1 ELSE generation END
  WHERE name = $1
    AND generation = (SELECT n.generation FROM rowlock_tokens AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
    AND EXISTS (SELECT 1 FROM rowlock_locks AS l WHERE l.name = $1 AND l.term = $2)
  RETURNING name, generation, draws, token),
keeps_name AS (
  INSERT INTO rowlock_tokens (name, token) SELECT d.name, 0 FROM drawn AS d WHERE d.generation = 1 AND d.draws = 128 ON CONFLICT DO NOTHING)
UPDATE rowlock_locks SET token = (SELECT d.token FROM drawn AS d)
WHERE name = $1 AND term = $2
RETURNING token

-- As lock_release: need not be flushed, and tells whether others wait.
-- name: unique_release
DELETE FROM rowlock_locks WHERE name = $1 AND term = $2
RETURNING (NOT pg_try_advisory_xact_lock_shared(hashtextextended(name, tableoid::bigint)))::int,
  set_config('synchronous_commit', 'off', true)

-- As lock_release_at_least, but only until then: after it, unique_release, so that no row stays that keeps out everybody who
-- locks by INSERT (C33). (A row whose time ends later is deleted by whoever takes the name next, or by the reaper.)
-- name: unique_release_at_least
UPDATE rowlock_locks SET
  term = $4,
  expires_at = least(acquired_at, clock_timestamp()) + $3::bigint * interval '1 millisecond',
  ttl = least($3::bigint, ceil(extract(epoch FROM acquired_at - clock_timestamp()) * 1000)::bigint + $3::bigint),
  longest = $3::bigint,
  longest_term = $4,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL
WHERE name = $1 AND term = $2 AND acquired_at + $3::bigint * interval '1 millisecond' > clock_timestamp()
RETURNING term

-- The next token of a name that the caller holds. Rises above the floor each time, not only in a fresh row: the name may
-- have had a lease in between, whose tokens went into the floor with its row. The floor is read in this statement's
-- snapshot, which is younger than the lock; and if the reaper deletes the row just now, this waits and finds none.
-- Each 128th draw moves the row on to the next generation; whoever waits for it then finds none, either, and asks again with a new
-- snapshot. What moves on from generation 0 leaves a row there, so that each INSERT of the name fails (at REPEATABLE READ too, where
-- it would draw from what it has put there itself, by an old snapshot).
-- name: token_draw
WITH drawn AS (
  UPDATE rowlock_tokens SET
    token = greatest(
      token + 1,
      (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
      (SELECT m.token_floor + 1 FROM rowlock_meta AS m WHERE m.id = 1),
      1 + <<incarnation >>),
    draws = draws + 1,
    generation = CASE WHEN draws % 128 = 127 THEN generation + 1 ELSE generation END
  WHERE name = $1
    AND generation = (SELECT n.generation FROM rowlock_tokens AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  RETURNING name, generation, draws, token),
keeps_name AS (
  INSERT INTO rowlock_tokens (name, token) SELECT d.name, 0 FROM drawn AS d WHERE d.generation = 1 AND d.draws = 128 ON CONFLICT DO NOTHING)
SELECT d.token FROM drawn AS d

-- name: token_insert
INSERT INTO rowlock_tokens (name, token) VALUES ($1, 0) ON CONFLICT DO NOTHING

-- name: transaction_begin
/* dies with the machine */ BEGIN ISOLATION LEVEL READ COMMITTED

-- Strategy row_lock. FOR UPDATE in a transaction that stays open; the session waits in the server until lock_timeout.
-- After the wait PostgreSQL looks at the row's newest version again: an anchor that the reaper deleted meanwhile is no
-- row, which is not the lock; start again. While it is locked nobody can delete or change it, so that no second anchor of
-- the name can be there. $2: the ttl, by which a holder knows that the session has ended with its server. The columns: whether it was not touched for an hour; and that the server takes writes, for in a
-- transaction that is read-only FOR UPDATE is an error.
-- name: row_wait
SELECT (expires_at <= clock_timestamp() - interval '1 hour')::int::bigint, 0::bigint
FROM rowlock_locks WHERE name = $1 AND strategy = 'row_lock' AND EXISTS <<pulse $2>> FOR UPDATE

-- As row_wait, but a locked anchor is no row. (NOWAIT would be an error, and two lines in the server's log.)
-- name: row_try
SELECT (expires_at <= clock_timestamp() - interval '1 hour')::int::bigint, 0::bigint
FROM rowlock_locks WHERE name = $1 AND strategy = 'row_lock' AND EXISTS <<pulse $2>> FOR UPDATE SKIP LOCKED

-- Whether the server takes no writes any more: after a switch-over that has left this session alive, with its row lock,
-- another server grants the same lock. A server becomes a standby only by a restart, which ends all sessions; before
-- that, switch-overs set this for all sessions at once, and it does not touch a transaction that is open. [C63]
-- name: row_ping
SELECT current_setting('default_transaction_read_only')::boolean::int::bigint

-- Says that the anchor was used; not while it is held, which the reaper sees itself.
-- name: row_touch
UPDATE rowlock_locks SET expires_at = clock_timestamp()
WHERE strategy = 'row_lock' AND name = (SELECT name FROM rowlock_locks WHERE name = $1 AND strategy = 'row_lock' FOR UPDATE SKIP LOCKED)

-- Who holds the anchors from the name $1 to $2, and has for $3 milliseconds (0: for however long): xmax is the transaction that has locked the row, if that is
-- still open. To other roles than a superuser's or pg_monitor's the server tells only the pid of other roles' sessions.
-- name: row_holders
SELECT l.name, host(a.client_addr), a.pid::bigint, (extract(epoch FROM a.xact_start) * 1000000)::bigint,
  a.application_name
FROM rowlock_locks AS l
JOIN pg_locks AS t ON t.locktype = 'transactionid' AND t.transactionid = l.xmax AND t.granted
  AND t.mode = 'ExclusiveLock'
JOIN pg_stat_activity AS a ON a.pid = t.pid
WHERE l.strategy = 'row_lock' AND l.name >= $1 AND l.name <= $2
  AND ($3::bigint = 0 OR a.xact_start <= clock_timestamp() - $3::bigint * interval '1 millisecond')

-- The quarantine: whether the database grants anything, after it may have forgotten what it granted. lib/doc/quarantine.md has the
-- whole. Each statement is a transaction of its own at READ COMMITTED, and waits for no other: rows are only added.

-- The pulses that this incarnation of the database has made: not a dump that was loaded (its rows have another xmin), nor a copy of a
-- database (it has another path). Also on the program's own connection: see guard.sql for the operators.
-- fragment: pulses
FROM rowlock_pulse AS q
  WHERE q.made_by OPERATOR(pg_catalog.=) q.xmin AND q.made_at OPERATOR(pg_catalog.=) pg_catalog.pg_relation_filepath(q.tableoid)<<>>
-- end

-- A pulse by which leases of so many milliseconds are granted. Without one there is no row, and so no grant.
-- fragment: pulse
(SELECT q.base <<pulses >>
    AND q.safe_from OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp() AND q.until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
    AND q.reach OPERATOR(pg_catalog.>=) LEAST(<<>>::bigint, 300000) LIMIT 1)
-- end

-- Which incarnation this is: the base of one of its pulses. Null: none has begun.
-- fragment: incarnation
(SELECT q.base <<pulses >> LIMIT 1)<<>>
-- end

-- Two sessions that begin it at once have made two bases, each of which no other incarnation has: so what was watched is compared with
-- all of them. An array, which is made at most once and apart: in the plan's conditions the sequential scan, which sessions avoid, would
-- cost so much that the planner sees no difference between good and bad ones.
-- fragment: incarnations
ANY (ARRAY(SELECT q.base <<pulses >>))<<>>
-- end

-- Where the role's commits are not flushed, this one is.
-- fragment: flushed
set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)<<>>
-- end

-- Whether an operator has frozen the database: it grants nothing, and none begins an incarnation.
-- fragment: frozen
EXISTS (SELECT 1 FROM rowlock_quarantine AS z WHERE z.frozen_until > clock_timestamp())<<>>
-- end

-- How many milliseconds it is until leases of $1 milliseconds are granted (null: not by any pulse), and until anything is (null: there
-- is none). How long the database is frozen, whether it pauses after it may have forgotten locks, and whether this session knows the
-- incarnation: it need not.
-- name: pulse_look
SELECT ceil(extract(epoch FROM min(q.safe_from) FILTER (WHERE q.reach >= least($1::bigint, 300000) AND q.until > clock_timestamp())
    - clock_timestamp()) * 1000)::bigint,
  ceil(extract(epoch FROM min(q.safe_from) - clock_timestamp()) * 1000)::bigint,
  coalesce((SELECT ceil(extract(epoch FROM z.frozen_until - clock_timestamp()) * 1000)::bigint FROM rowlock_quarantine AS z
    WHERE z.frozen_until > clock_timestamp()), 0),
  coalesce((SELECT z.enabled::int::bigint FROM rowlock_quarantine AS z), 1), 1
<<pulses >>

-- A new incarnation: nothing is granted until the longest lease that can have been forgotten is over, and a second longer: one that
-- was granted in the last day, or is held by what is left (its renewal can have been forgotten; a record of once is no lease). A day:
-- what the replica has missed, last night's job tells of this night's.
-- Two at once: both add one, and the earlier one counts. Neither is too early: both begin after the crash. Also where the clock went
-- back, so that all pulses are further ahead than they can have been made. base: an hour above all tokens, in microseconds, so that it is above
-- those that were forgotten. (A token that a hand has put ten years ahead is left to itself.) It is kept with the reach, flushed: the
-- next incarnation's is above it, although all its tokens may be forgotten, and the new server's clock be behind. Where an operator
-- has turned the pause off, grants begin at once.
-- name: pulse_begin
WITH fresh AS (
  INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base)
  SELECT clock_timestamp() + reach.pause, reach.ttl, reach.until, clock_timestamp(),
    3600000000 + greatest(
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    (SELECT max(r.base) FROM rowlock_reach AS r),
    (SELECT max(l.token) FROM rowlock_locks AS l WHERE l.token < reach.absurd),
    (SELECT max(t.token) FROM rowlock_tokens AS t WHERE t.token < reach.absurd),
    (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.token_floor < reach.absurd))
  FROM (
    SELECT k.*, CASE WHEN (SELECT z.enabled FROM rowlock_quarantine AS z) IS FALSE THEN interval '0'
      ELSE k.ttl * interval '1 millisecond' + interval '1 second' END AS pause
    FROM (SELECT least(greatest(
        (SELECT max(r.ttl) FROM rowlock_reach AS r WHERE r.until > clock_timestamp() - interval '1 day'),
        (SELECT max(l.ttl) FROM rowlock_locks AS l WHERE l.term <> 'name' AND l.owner_process IS NOT NULL),
        (SELECT max(p.ttl) FROM rowlock_permits AS p), 0), 300000) AS ttl,
      clock_timestamp() + interval '1 hour' AS until,
      (extract(epoch FROM clock_timestamp() + interval '10 years') * 1000000)::bigint AS absurd) AS k) AS reach
  WHERE NOT <<frozen >> AND NOT EXISTS (
    SELECT <<pulses >> AND q.safe_from <= clock_timestamp() + reach.ttl * interval '1 millisecond' + interval '1 second')
  RETURNING reach, until, base)
INSERT INTO rowlock_reach (ttl, until, base) SELECT f.reach, f.until, f.base FROM fresh AS f
RETURNING <<flushed >>

-- Before leases of $1 milliseconds are granted, for an hour: flushed, so that the next incarnation waits for them.
-- name: pulse_reach
INSERT INTO rowlock_reach (ttl, until, base)
SELECT w.ttl, clock_timestamp() + interval '1 hour', 0 FROM (SELECT least($1::bigint, 300000) AS ttl) AS w
WHERE NOT EXISTS (
  SELECT 1 FROM rowlock_reach AS r WHERE r.ttl >= w.ttl AND r.until > clock_timestamp() + interval '30 minutes')
RETURNING <<flushed >>

-- Then this incarnation grants such leases, from when it grants others. Only if the reach is committed, and so flushed.
-- name: pulse_raise
INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base)
SELECT q.safe_from, least($1::bigint, 300000), k.until, q.begun, q.base
FROM (SELECT max(r.until) AS until FROM rowlock_reach AS r WHERE r.ttl >= least($1::bigint, 300000)) AS k, (
  SELECT q.safe_from, q.begun, q.base <<pulses >> ORDER BY q.safe_from, q.base LIMIT 1) AS q
WHERE k.until > clock_timestamp()

-- Pulses and reaches that grant no longer, nor make a quarantine longer. One pulse stays, to tell the incarnation; and the highest
-- base. One session does it at a time, so that none waits for another's transaction.
-- name: pulse_tidy
WITH alone AS MATERIALIZED (
  SELECT clock_timestamp() - interval '1 hour' AS before WHERE pg_try_advisory_xact_lock(hashtextextended('rowlock: tidy pulses', 0))
), pulses AS (
  DELETE FROM rowlock_pulse AS q USING alone
  WHERE q.until < alone.before AND EXISTS (
    SELECT 1 FROM rowlock_pulse AS o WHERE o.made_by = o.xmin AND o.made_at = pg_relation_filepath(o.tableoid) AND o.until > q.until))
DELETE FROM rowlock_reach AS r USING alone
WHERE r.until < alone.before - interval '1 day' AND EXISTS (SELECT 1 FROM rowlock_reach AS o WHERE o.base >= r.base AND o.until > r.until)

-- A freeze is a later safe_from, so the incarnation stays what it is: renewals and watches go on. pulse_set_frozen, pulse_thaw and
-- pulse_freeze are one transaction: a session in between would take the pulses for those of a clock that went back.
-- $1: for how many milliseconds; null: no longer.
-- name: pulse_set_frozen
UPDATE rowlock_quarantine SET frozen_until = clock_timestamp() + $1::bigint * interval '1 millisecond' RETURNING <<flushed >>

-- name: pulse_set_enabled
UPDATE rowlock_quarantine SET enabled = $1::bigint <> 0 RETURNING <<flushed >>

-- Pulses as they were before a freeze, or later: no quarantine is longer than 301 seconds. None, where the pause is off.
-- name: pulse_thaw
UPDATE rowlock_pulse AS q SET made_by = pg_current_xact_id()::xid, safe_from = greatest(
  clock_timestamp(), CASE WHEN z.enabled THEN least(q.begun, clock_timestamp()) + interval '301 seconds' END)
FROM rowlock_quarantine AS z
WHERE q.made_by = q.xmin AND q.made_at = pg_relation_filepath(q.tableoid) AND q.safe_from > greatest(
  clock_timestamp(), CASE WHEN z.enabled THEN least(q.begun, clock_timestamp()) + interval '301 seconds' END)

-- Pulses that grant before the freeze is over. Repeated until there are none: a statement from before can still add one.
-- name: pulse_freeze
UPDATE rowlock_pulse AS q SET made_by = pg_current_xact_id()::xid, safe_from = z.frozen_until
FROM rowlock_quarantine AS z
WHERE z.frozen_until > clock_timestamp() AND q.safe_from < z.frozen_until
  AND q.made_by = q.xmin AND q.made_at = pg_relation_filepath(q.tableoid)

-- Instead of pulse_freeze, where the database is not what it was: what follows is another incarnation.
-- name: pulse_forget
DELETE FROM rowlock_pulse

-- Transactions that can still grant by a pulse as it was, or have added one or granted and not committed: a snapshot, or writes to
-- these tables. (Not who only has a row locked, at READ COMMITTED: a holder.) Which, its session, whose, its age in milliseconds, and
-- whether it is this one. Any role sees these: only the age of others' may be hidden.
-- name: pulse_in_the_way
SELECT t.virtualtransaction, coalesce(t.pid, 0)::bigint,
  CASE WHEN t.pid IS NULL THEN 'a prepared transaction' ELSE coalesce(a.application_name, '') END,
  coalesce((extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint, 0),
  coalesce((t.pid = pg_backend_pid())::int, 0)
FROM (
  SELECT l.virtualtransaction, l.pid, bool_or(l.mode = 'RowExclusiveLock' AND l.relation IN
    ('rowlock_pulse'::regclass, 'rowlock_locks'::regclass, 'rowlock_permits'::regclass)
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())) AS writes
  FROM pg_locks AS l WHERE l.granted GROUP BY l.virtualtransaction, l.pid) AS t
LEFT JOIN pg_stat_activity AS a ON a.pid = t.pid
WHERE t.pid = pg_backend_pid() OR t.writes
  OR (a.backend_xmin IS NOT NULL AND a.usesysid IS NOT NULL AND a.datname = current_database())

-- Of a row that a waiter watches (takeover::observed, and where the clock went back): in which incarnation it has the term $2 and the
-- renewals $3. One statement, one snapshot: both are of that incarnation. A watch counts within one, for a term and its renewals can
-- come back as they were.
-- name: pulse_watch
SELECT <<incarnation >> FROM rowlock_locks AS l
WHERE l.name = $1 AND l.term = $2 AND l.renewals = $3::bigint
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)

-- Of the doctor: one for each right on these tables that locking needs.
-- name: pulse_may_select_quarantine
SELECT 1 FROM rowlock_quarantine WHERE false

-- name: pulse_may_select_reach
SELECT 1 FROM rowlock_reach WHERE false

-- name: pulse_may_insert_reach
INSERT INTO rowlock_reach (ttl, until, base) SELECT 1, clock_timestamp(), 0 WHERE false

-- name: pulse_may_select_pulse
SELECT 1 FROM rowlock_pulse WHERE false

-- name: pulse_may_insert_pulse
INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base)
SELECT clock_timestamp(), 0, clock_timestamp(), clock_timestamp(), 0 WHERE false

-- name: pulse_may_delete_reach
DELETE FROM rowlock_reach WHERE false

-- name: pulse_may_delete_pulse
DELETE FROM rowlock_pulse WHERE false

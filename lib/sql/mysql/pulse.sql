-- The quarantine: whether the database grants anything, after it may have forgotten what it granted. lib/doc/quarantine.md has the
-- whole. Each statement is a transaction of its own at READ COMMITTED, and waits for no other: rows are added, each with a key of its
-- own, and deleted when they are of no use any more, past those that others have locked. A sub-select on rowlock_pulse stands in SELECT,
-- INSERT ... SELECT and an UPDATE of one table only: there it is a plain read. In DELETE and in an UPDATE of a join InnoDB reads with a
-- lock, and would wait for a row that a program's transaction has added. There it skips such rows, or a SELECT before it has left the
-- base in a variable.
--
-- InnoDB has no table that a crash or a promotion empties. So a pulse names the server that made it (made_by). Where commits are not
-- flushed it names the start of that server, too (made_in). Both are numbers, which a session finds out once and keeps: it can't
-- outlive the server's process. It keeps the base, too, which names the incarnation. A take compares that with the last pulse's, and then
-- calculates with what the session knows: two sub-selects less. A session without them, or in another incarnation, is granted nothing until
-- it asks again (pulse_here).

-- Whether a crash keeps what was committed. The binary log decides on that, too. (3 is MariaDB's, and flushes more.)
-- fragment: durable
@@global.innodb_flush_log_at_trx_commit IN (1, 3) AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1)<<>>
-- end

-- Of a pulse: whether this server made it, in this start or for all.
-- fragment: made_here
q.made_by = CAST(@rowlock_here AS SIGNED)
    AND (q.made_in = CAST(@rowlock_start AS SIGNED) OR (q.made_in = 0 AND <<durable >>))<<>>
-- end

-- Of a pulse: whether this server grants by it just now.
-- fragment: grants_now
<<made_here >> AND q.safe_from <= utc_timestamp(6) AND q.until > utc_timestamp(6)<<>>
-- end

-- The base of a pulse by which leases of so many milliseconds are granted. Null: none, and so no grant. The last pulse counts: of the
-- incarnation that began last, here or elsewhere, the one that grants longest.
-- An UPDATE that may wait for its row puts something of the row into <<>>: then this is read behind the wait. Otherwise it would be the
-- statement's first plain read, by whose view the token floor is looked up, too: as it was before the wait.
-- fragment: pulse
(SELECT CASE WHEN <<grants_now >> AND q.reach >= least(<<>>, 300000) THEN q.base END
  FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1)
-- end

-- The same for an UPDATE of a join, where a plain sub-select would wait for a row that is not committed yet.
-- fragment: pulse_past_locks
(SELECT CASE WHEN <<grants_now >> AND q.reach >= least(<<>>, 300000) THEN q.base END
  FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1
    /*!80000 FOR SHARE *//*M! LOCK IN SHARE MODE */ SKIP LOCKED)
-- end

-- The incarnation that the session knows. A take compares the pulse with it.
-- fragment: known_base
CAST(@rowlock_base AS SIGNED)<<>>
-- end

-- Which incarnation this is: its pulses' base. Null: none has begun. <<>>: a number of the row that is changed.
-- fragment: incarnation
(SELECT CASE WHEN <<made_here >> THEN q.base + 0 * <<>> END FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1)
-- end

-- The same for a DELETE, where a plain sub-select would wait for a row that is not committed yet.
-- fragment: incarnation_past_locks
(SELECT CASE WHEN <<made_here >> THEN q.base END FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1
    /*!80000 FOR SHARE *//*M! LOCK IN SHARE MODE */ SKIP LOCKED)<<>>
-- end

-- Whether an operator has frozen the database: it grants nothing, and none begins an incarnation.
-- fragment: frozen
EXISTS (SELECT 1 FROM rowlock_quarantine AS z WHERE z.frozen_until > utc_timestamp(6))<<>>
-- end

-- As a table: the last pulse, if this server made it.
-- fragment: pulses
FROM (SELECT p.* FROM rowlock_pulse AS p ORDER BY p.begun DESC, p.until DESC, p.reach DESC LIMIT 1) AS q WHERE <<made_here >><<>>
-- end

-- Which server this is, and which incarnation. A cluster that certifies its commits loses none with a server: there it is the cluster.
-- The start is exact whatever the clock does: both times are those at which the statement began. (Behind SET timestamp the uptime is
-- below 0.) Most of the text stands in migrations/mysql, too.
-- name: pulse_here
SELECT h.server, h.start, (
  SELECT CASE WHEN q.made_by = h.server AND (q.made_in = h.start OR (q.made_in = 0 AND <<durable >>)) THEN q.base END
  FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1)
INTO @rowlock_here, @rowlock_start, @rowlock_base
FROM (
  SELECT
    CAST(conv(left(sha2(coalesce(s.cluster, concat_ws('/',
      @@global.hostname, @@global.port, @@global.datadir, @@global.server_id /*!80000 , @@global.server_uuid */)), 256), 15), 16, 10) AS SIGNED) AS server,
    CASE WHEN s.cluster IS NULL THEN unix_timestamp() - CAST(CAST(s.uptime AS UNSIGNED) AS SIGNED) ELSE 0 END AS start
  FROM (
    SELECT max(CASE g.variable_name WHEN 'Uptime' THEN g.variable_value END) AS uptime,
      coalesce(
        max(CASE WHEN g.variable_name = 'wsrep_cluster_state_uuid' AND trim(BOTH '0' FROM replace(g.variable_value, '-', '')) <> ''
          THEN concat('wsrep ', g.variable_value) END)
        /*!80000 , (SELECT concat('group ', v.variable_value) FROM performance_schema.global_variables AS v
          WHERE v.variable_name = 'group_replication_group_name' AND v.variable_value <> '') */) AS cluster
    FROM /*M! information_schema *//*!80000 performance_schema */.global_status AS g
    WHERE g.variable_name IN ('Uptime', 'wsrep_cluster_state_uuid')) AS s) AS h

-- How many milliseconds it is until leases of $1 milliseconds are granted (null: not by any pulse), and until anything is (null: there
-- is none). How long the database is frozen, whether it pauses after it may have forgotten locks, and whether this session knows the
-- incarnation.
-- name: pulse_look
SELECT
  CAST(ceil(min(CASE WHEN q.reach >= least($1, 300000) AND q.until > utc_timestamp(6)
    THEN timestampdiff(MICROSECOND, utc_timestamp(6), q.safe_from) END) / 1000) AS SIGNED),
  CAST(ceil(min(timestampdiff(MICROSECOND, utc_timestamp(6), q.safe_from)) / 1000) AS SIGNED),
  coalesce((SELECT CAST(ceil(timestampdiff(MICROSECOND, utc_timestamp(6), z.frozen_until) / 1000) AS SIGNED)
    FROM rowlock_quarantine AS z WHERE z.frozen_until > utc_timestamp(6)), 0),
  coalesce((SELECT CAST(z.enabled AS SIGNED) FROM rowlock_quarantine AS z), 1),
  coalesce(max(q.base = <<known_base >>), 0)
<<pulses >>

-- A new incarnation: nothing is granted until the longest lease that can have been forgotten is over, and a second longer: one that
-- was granted in the last day, or is held by what is left (its renewal can have been forgotten; a record of once is no lease). A day:
-- what the replica has missed, last night's job tells of this night's.
-- Two at once: both add one, and the later one counts. Also where the clock went back, so that all pulses are further ahead than they
-- can have been made. begun: above all that are there, whatever the clocks of the servers are. base: an hour above all tokens, in
-- microseconds, so that it is above those that were forgotten. (A token that a hand has put ten years ahead is left to itself.)
-- Where an operator has turned the pause off, grants begin at once.
-- name: pulse_begin
INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
SELECT greatest(utc_timestamp(6), coalesce((SELECT max(q.begun) + INTERVAL 1 MICROSECOND FROM rowlock_pulse AS q), utc_timestamp(6))),
  utc_timestamp(6) + INTERVAL 1 HOUR,
  known.reach,
  CAST(conv(left(sha2(concat(uuid(), rand(), connection_id()), 256), 15), 16, 10) AS SIGNED),
  utc_timestamp(6) + INTERVAL CASE WHEN known.enabled THEN 1000 * known.reach + 1000000 ELSE 0 END MICROSECOND,
  3600000000 + greatest(
    timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)),
    coalesce((SELECT max(q.base) FROM rowlock_pulse AS q), 0),
    coalesce((SELECT max(l.token) FROM rowlock_locks AS l WHERE l.token < known.absurd), 0),
    coalesce((SELECT max(t.token) FROM rowlock_tokens AS t WHERE t.token < known.absurd), 0),
    coalesce((SELECT m.token_floor FROM rowlock_meta AS m WHERE m.token_floor < known.absurd), 0)),
  @rowlock_here,
  CASE WHEN @rowlock_start = 0 OR <<durable >> THEN 0 ELSE @rowlock_start END
FROM (
  SELECT least(300000, greatest(0,
      coalesce((SELECT max(q.reach) FROM rowlock_pulse AS q WHERE q.until > utc_timestamp(6) - INTERVAL 1 DAY), 0),
      coalesce((SELECT max(l.ttl) FROM rowlock_locks AS l WHERE l.term IS NOT NULL AND l.owner_process IS NOT NULL), 0),
      coalesce((SELECT max(p.ttl) FROM rowlock_permits AS p), 0))) AS reach,
    coalesce((SELECT z.enabled FROM rowlock_quarantine AS z), 1) AS enabled,
    timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) + 315360000000000 AS absurd) AS known
WHERE NOT <<frozen >> AND NOT EXISTS (
  SELECT 1 <<pulses >> AND q.safe_from <= utc_timestamp(6) + INTERVAL 1000 * known.reach + 1000000 MICROSECOND)

-- Before leases of $1 milliseconds are granted, for an hour: so that the next incarnation waits for them. It is a copy of the last
-- pulse, whoever made that, with what that still grants: so it counts instead, also where the clock went back. A grant is acknowledged
-- when it is flushed, and this with it: it was written before. [F1]
-- name: pulse_reach
INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
SELECT q.begun, greatest(utc_timestamp(6) + INTERVAL 1 HOUR, q.until + INTERVAL 1 MICROSECOND),
  least(300000, greatest($1, CASE WHEN q.until > utc_timestamp(6) THEN q.reach ELSE 0 END)),
  CAST(conv(left(sha2(concat(uuid(), rand(), connection_id()), 256), 15), 16, 10) AS SIGNED),
  q.safe_from, q.base, q.made_by, q.made_in
FROM (SELECT p.* FROM rowlock_pulse AS p ORDER BY p.begun DESC, p.until DESC, p.reach DESC LIMIT 1) AS q
WHERE q.reach < least($1, 300000) OR q.until <= utc_timestamp(6) + INTERVAL 30 MINUTE

-- Then this incarnation grants them: what pulse_reach has written does.
-- name: pulse_raise
DO $1

-- Pulses that grant no longer, nor make a quarantine longer. The last one stays.
-- name: pulse_tidy
DELETE q FROM (
  SELECT p.begun, p.until, p.reach, p.id FROM rowlock_pulse AS p
  WHERE p.until < utc_timestamp(6) - INTERVAL 25 HOUR LIMIT 1000 FOR UPDATE SKIP LOCKED) AS old
STRAIGHT_JOIN rowlock_pulse AS q ON q.begun = old.begun AND q.until = old.until AND q.reach = old.reach AND q.id = old.id
WHERE (q.begun, q.until) < (
  SELECT l.begun, l.until FROM (SELECT p.begun, p.until FROM rowlock_pulse AS p ORDER BY p.begun DESC, p.until DESC LIMIT 1
    /*!80000 FOR SHARE *//*M! LOCK IN SHARE MODE */ SKIP LOCKED) AS l)

-- A freeze is a later safe_from, so the incarnation stays what it is: renewals and watches go on. pulse_set_frozen, pulse_thaw and
-- pulse_freeze are one transaction: a session in between would take the pulses for those of a clock that went back.
-- $1: for how many milliseconds; null: no longer.
-- name: pulse_set_frozen
UPDATE rowlock_quarantine SET frozen_until = utc_timestamp(6) + INTERVAL 1000 * $1 MICROSECOND

-- name: pulse_set_enabled
UPDATE rowlock_quarantine SET enabled = $1 <> 0

-- Pulses as they were before a freeze, or later: no quarantine is longer than 301 seconds. None, where the pause is off.
-- name: pulse_thaw
UPDATE rowlock_pulse AS q STRAIGHT_JOIN rowlock_quarantine AS z
SET q.safe_from = CASE WHEN z.enabled THEN greatest(utc_timestamp(6), least(q.begun, utc_timestamp(6)) + INTERVAL 301 SECOND)
  ELSE utc_timestamp(6) END
WHERE <<made_here >> AND q.safe_from > CASE
  WHEN z.enabled THEN greatest(utc_timestamp(6), least(q.begun, utc_timestamp(6)) + INTERVAL 301 SECOND) ELSE utc_timestamp(6) END

-- Pulses that grant before the freeze is over. Repeated until there are none: a statement from before can still add one.
-- name: pulse_freeze
UPDATE rowlock_pulse AS q STRAIGHT_JOIN rowlock_quarantine AS z SET q.safe_from = z.frozen_until
WHERE <<made_here >> AND z.frozen_until > utc_timestamp(6) AND q.safe_from < z.frozen_until

-- Instead of pulse_freeze, where the database is not what it was: what follows is another incarnation.
-- name: pulse_forget
UPDATE rowlock_pulse SET made_by = 0 WHERE made_by <> 0

-- Transactions that can still grant by a pulse as it was, or have added one or granted and not committed: one that waits, runs, has
-- written, or sees the database as it was. (Not who only has a row locked, at READ COMMITTED: a holder.) And sessions that run a
-- statement: between those of a procedure there is no transaction. Which, its session, whose, its age in milliseconds, and whether it
-- is this one: innodb_trx shows nothing new as long as any session looks at it more often than ten times a second. Needs PROCESS. (No
-- trx_id: a transaction gets another one when it first writes.)
-- name: pulse_in_the_way
SELECT concat('transaction of ', t.trx_mysql_thread_id, ' since ', t.trx_started), CAST(t.trx_mysql_thread_id AS SIGNED),
  coalesce(concat(p.user, '@', p.host), ''), CAST(1000 * greatest(timestampdiff(SECOND, t.trx_started, now()), 0) AS SIGNED),
  t.trx_mysql_thread_id = connection_id()
FROM information_schema.innodb_trx AS t LEFT JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id = connection_id() OR t.trx_state <> 'RUNNING' OR t.trx_query IS NOT NULL OR t.trx_rows_modified > 0
  OR t.trx_isolation_level NOT IN ('READ COMMITTED', 'READ UNCOMMITTED')
UNION ALL
SELECT concat('session ', p.id), CAST(p.id AS SIGNED), concat(p.user, '@', p.host), CAST(1000 * coalesce(p.time, 0) AS SIGNED), 0
FROM information_schema.processlist AS p WHERE p.command IN ('Query', 'Execute') AND p.id <> connection_id()

-- Of a row that a waiter watches (takeover::observed, and where the clock went back): in which incarnation it has the term $2 and the
-- renewals $3. One statement, one snapshot: both are of that incarnation. A watch counts within one, for a term and its renewals can
-- come back as they were.
-- name: pulse_watch
SELECT <<incarnation l.token>> FROM rowlock_locks AS l WHERE l.name = $1 AND l.term = $2 AND l.renewals = $3

-- Of the doctor: one for each right on these tables that locking needs.
-- name: pulse_may_select_quarantine
SELECT 1 FROM rowlock_quarantine WHERE FALSE

-- name: pulse_may_select_pulse
SELECT 1 FROM rowlock_pulse WHERE FALSE

-- name: pulse_may_insert_pulse
INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
SELECT utc_timestamp(6), utc_timestamp(6), 0, 0, utc_timestamp(6), 0, 0, 0 FROM (SELECT 1) AS one WHERE FALSE

-- name: pulse_may_delete_pulse
DELETE FROM rowlock_pulse WHERE FALSE

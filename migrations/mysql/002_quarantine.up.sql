-- Since when this database grants locks, after it may have forgotten some: a failover to a replica that lagged, a crash with
-- commits that were not flushed. lib/doc/quarantine.md
--
-- This text can be run again, also after a later version.

-- Pulses: what this incarnation of the database grants, and since when. A session that finds none adds one, with a random part of the
-- key, and waits for no open transaction. Those that are of no use any more are deleted. A row counts on the server that made it,
-- until another incarnation begins.
CREATE TABLE IF NOT EXISTS rowlock_pulse (
  begun     DATETIME(6) NOT NULL,           -- of the incarnation
  until     DATETIME(6) NOT NULL,           -- until then
  reach     BIGINT      NOT NULL,           -- leases up to this ttl, in milliseconds, are granted
  id        BIGINT      NOT NULL,           -- random
  safe_from DATETIME(6) NOT NULL,           -- and nothing before
  base      BIGINT      NOT NULL,           -- all tokens that this incarnation draws are above; names it, too
  made_by   BIGINT      NOT NULL,           -- the server, or the cluster: lib/sql/mysql/pulse.sql
  made_in   BIGINT      NOT NULL,           -- the start of that server; 0: a crash of it forgets nothing
  PRIMARY KEY (begun, until, reach, id)
) ENGINE = InnoDB;

-- What an operator has set: whether this database pauses after it may have forgotten locks, and until when it grants nothing. Read
-- where a pulse is begun, and not by takes: a freeze moves safe_from.
CREATE TABLE IF NOT EXISTS rowlock_quarantine (
  id           TINYINT     NOT NULL PRIMARY KEY,
  enabled      TINYINT     NOT NULL,
  frozen_until DATETIME(6) NULL
) ENGINE = InnoDB;
INSERT INTO rowlock_quarantine (id, enabled) VALUES (1, 1) ON DUPLICATE KEY UPDATE id = 1;

-- As lib/sql/mysql/pulse.sql has it.
SELECT
  CAST(conv(left(sha2(coalesce(s.cluster, concat_ws('/',
    @@global.hostname, @@global.port, @@global.datadir, @@global.server_id /*!80000 , @@global.server_uuid */)), 256), 15), 16, 10) AS SIGNED),
  CASE WHEN s.cluster IS NULL THEN unix_timestamp() - CAST(CAST(s.uptime AS UNSIGNED) AS SIGNED) ELSE 0 END
INTO @rowlock_here, @rowlock_start
FROM (
  SELECT max(CASE g.variable_name WHEN 'Uptime' THEN g.variable_value END) AS uptime,
    coalesce(
      max(CASE WHEN g.variable_name = 'wsrep_cluster_state_uuid' AND trim(BOTH '0' FROM replace(g.variable_value, '-', '')) <> ''
        THEN concat('wsrep ', g.variable_value) END)
      /*!80000 , (SELECT concat('group ', v.variable_value) FROM performance_schema.global_variables AS v
        WHERE v.variable_name = 'group_replication_group_name' AND v.variable_value <> '') */) AS cluster
  FROM /*M! information_schema *//*!80000 performance_schema */.global_status AS g
  WHERE g.variable_name IN ('Uptime', 'wsrep_cluster_state_uuid')) AS s;

-- Nothing was forgotten so far. At a time before all incarnations, so that none that has begun is undone where this text is run again.
SET @rowlock_made_in = CASE WHEN @rowlock_start = 0 OR (@@global.innodb_flush_log_at_trx_commit IN (1, 3)
  AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1)) THEN 0 ELSE @rowlock_start END;
SET @rowlock_longest = (SELECT least(300000, greatest(0,
  coalesce((SELECT max(l.ttl) FROM rowlock_locks AS l WHERE l.owner_process IS NOT NULL), 0),
  coalesce((SELECT max(p.ttl) FROM rowlock_permits AS p), 0))));
INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
SELECT '1970-01-01', utc_timestamp(6) + INTERVAL 1 HOUR, @rowlock_longest, 0, utc_timestamp(6), 0, @rowlock_here, @rowlock_made_in
FROM rowlock_meta AS m
WHERE m.schema_version < 2 AND NOT EXISTS (SELECT 1 FROM rowlock_pulse AS q);

-- As the library has it (lib/sql/mysql/pulse.sql), in the caller's transaction: so what it writes is there with the caller's COMMIT. Plain
-- reads alone, for no other session may wait for that. (At SERIALIZABLE they lock: there a new pulse waits for the caller's COMMIT,
-- a second at most.) An old snapshot shows none of what has begun since: then this begins the time again.
-- What is written comes from variables, because a statement in the binary log would name the replica's own server there.
SET @rowlock_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

DROP PROCEDURE IF EXISTS rowlock_granting;
CREATE PROCEDURE rowlock_granting(IN in_ttl_ms BIGINT, OUT out_base BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
granting: BEGIN
  DECLARE wanted BIGINT DEFAULT least(in_ttl_ms, 300000);
  DECLARE rounds INT DEFAULT 0;
  DECLARE durable, waits, frozen, pauses INT;
  DECLARE present, safe, since, over_at DATETIME(6);
  DECLARE longest, highest, absurd, fresh, here, started BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET out_base = NULL;
  SET durable = @@global.innodb_flush_log_at_trx_commit IN (1, 3) AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1);
  SET present = utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND;
  again: WHILE rounds < 4 DO
    SET rounds = rounds + 1;
    SELECT q.base INTO out_base FROM rowlock_pulse AS q
    WHERE q.begun = (SELECT max(m.begun) FROM rowlock_pulse AS m) AND q.made_by = CAST(@rowlock_here AS SIGNED)
      AND (q.made_in = CAST(@rowlock_start AS SIGNED) OR (q.made_in = 0 AND durable))
      AND q.safe_from <= present AND q.until > present AND q.reach >= wanted LIMIT 1;
    IF out_base IS NOT NULL THEN
      LEAVE granting;
    END IF;
    IF rounds = 1 THEN
      SELECT
        CAST(conv(left(sha2(coalesce(s.cluster, concat_ws('/',
          @@global.hostname, @@global.port, @@global.datadir, @@global.server_id /*!80000 , @@global.server_uuid */)), 256), 15), 16, 10) AS SIGNED),
        CASE WHEN s.cluster IS NULL THEN unix_timestamp() - CAST(CAST(s.uptime AS UNSIGNED) AS SIGNED) ELSE 0 END
      INTO @rowlock_here, @rowlock_start
      FROM (
        SELECT max(CASE g.variable_name WHEN 'Uptime' THEN g.variable_value END) AS uptime,
          coalesce(
            max(CASE WHEN g.variable_name = 'wsrep_cluster_state_uuid' AND trim(BOTH '0' FROM replace(g.variable_value, '-', '')) <> ''
              THEN concat('wsrep ', g.variable_value) END)
            /*!80000 , (SELECT concat('group ', v.variable_value) FROM performance_schema.global_variables AS v
              WHERE v.variable_name = 'group_replication_group_name' AND v.variable_value <> '') */) AS cluster
        FROM /*M! information_schema *//*!80000 performance_schema */.global_status AS g
        WHERE g.variable_name IN ('Uptime', 'wsrep_cluster_state_uuid')) AS s;
    ELSE
      SELECT 1 INTO frozen FROM rowlock_quarantine AS z WHERE z.frozen_until > present;
      IF frozen IS NOT NULL THEN
        LEAVE granting;
      END IF;
      SET safe = NULL;
      SELECT q.safe_from, q.begun, q.base INTO safe, since, highest FROM rowlock_pulse AS q
      WHERE q.begun = (SELECT max(m.begun) FROM rowlock_pulse AS m) AND q.made_by = CAST(@rowlock_here AS SIGNED)
        AND (q.made_in = CAST(@rowlock_start AS SIGNED) OR (q.made_in = 0 AND durable))
        AND q.safe_from <= present + INTERVAL 301 SECOND
      LIMIT 1;
      SET fresh = CAST(conv(left(sha2(concat(uuid(), rand(), connection_id()), 256), 15), 16, 10) AS SIGNED);
      SET here = @rowlock_here;
      SET started = CASE WHEN @rowlock_start = 0 OR durable THEN 0 ELSE @rowlock_start END;
      IF safe IS NULL THEN  -- a new incarnation
        SET absurd = timestampdiff(MICROSECOND, '1970-01-01', present) + 315360000000000;
        SELECT least(300000, greatest(0,
          coalesce((SELECT max(q.reach) FROM rowlock_pulse AS q WHERE q.until > present - INTERVAL 1 DAY), 0),
          coalesce((SELECT max(l.ttl) FROM rowlock_locks AS l WHERE l.term IS NOT NULL AND l.owner_process IS NOT NULL), 0),
          coalesce((SELECT max(p.ttl) FROM rowlock_permits AS p), 0))) INTO longest;
        SELECT 3600000000 + greatest(
          timestampdiff(MICROSECOND, '1970-01-01', present),
          coalesce((SELECT max(q.base) FROM rowlock_pulse AS q), 0),
          coalesce((SELECT max(l.token) FROM rowlock_locks AS l WHERE l.token < absurd), 0),
          coalesce((SELECT max(t.token) FROM rowlock_tokens AS t WHERE t.token < absurd), 0),
          coalesce((SELECT m.token_floor FROM rowlock_meta AS m WHERE m.token_floor < absurd), 0)) INTO highest;
        SELECT greatest(present, coalesce(max(q.begun) + INTERVAL 1 MICROSECOND, present)) INTO since FROM rowlock_pulse AS q;
        SELECT coalesce(max(z.enabled), 1) INTO pauses FROM rowlock_quarantine AS z;
        INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
        VALUES (since, present + INTERVAL 1 HOUR, longest, fresh,
          present + INTERVAL CASE WHEN pauses THEN 1000 * longest + 1000000 ELSE 0 END MICROSECOND, highest, here, started);
        ITERATE again;  -- where the pause is off, it grants
      END IF;
      SET waits = NULL;
      SELECT 1 INTO waits FROM rowlock_pulse AS q
      WHERE q.begun = (SELECT max(m.begun) FROM rowlock_pulse AS m) AND q.made_by = CAST(@rowlock_here AS SIGNED)
        AND (q.made_in = CAST(@rowlock_start AS SIGNED) OR (q.made_in = 0 AND durable))
        AND q.until > present AND q.reach >= wanted LIMIT 1;
      IF waits IS NOT NULL OR rounds = 4 THEN
        LEAVE granting;
      END IF;
      SELECT greatest(wanted, coalesce(max(CASE WHEN q.until > present THEN q.reach END), 0)),
        greatest(present + INTERVAL 1 HOUR, max(q.until) + INTERVAL 1 MICROSECOND)
      INTO longest, over_at FROM rowlock_pulse AS q WHERE q.begun = since;
      INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
      VALUES (since, over_at, longest, fresh, safe, highest, here, started);
    END IF;
  END WHILE again;
END;

DROP PROCEDURE IF EXISTS rowlock_begun;
CREATE PROCEDURE rowlock_begun(OUT out_begun DATETIME(6))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE durable INT;
  SET durable = @@global.innodb_flush_log_at_trx_commit IN (1, 3) AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1);
  IF @rowlock_here IS NULL THEN
    SELECT
      CAST(conv(left(sha2(coalesce(s.cluster, concat_ws('/',
        @@global.hostname, @@global.port, @@global.datadir, @@global.server_id /*!80000 , @@global.server_uuid */)), 256), 15), 16, 10) AS SIGNED),
      CASE WHEN s.cluster IS NULL THEN unix_timestamp() - CAST(CAST(s.uptime AS UNSIGNED) AS SIGNED) ELSE 0 END
    INTO @rowlock_here, @rowlock_start
    FROM (
      SELECT max(CASE g.variable_name WHEN 'Uptime' THEN g.variable_value END) AS uptime,
        coalesce(
          max(CASE WHEN g.variable_name = 'wsrep_cluster_state_uuid' AND trim(BOTH '0' FROM replace(g.variable_value, '-', '')) <> ''
            THEN concat('wsrep ', g.variable_value) END)
          /*!80000 , (SELECT concat('group ', v.variable_value) FROM performance_schema.global_variables AS v
            WHERE v.variable_name = 'group_replication_group_name' AND v.variable_value <> '') */) AS cluster
      FROM /*M! information_schema *//*!80000 performance_schema */.global_status AS g
      WHERE g.variable_name IN ('Uptime', 'wsrep_cluster_state_uuid')) AS s;
  END IF;
  SELECT coalesce(max(q.begun), '9999-12-31') INTO out_begun FROM rowlock_pulse AS q
  WHERE q.begun = (SELECT max(m.begun) FROM rowlock_pulse AS m) AND q.made_by = CAST(@rowlock_here AS SIGNED)
    AND (q.made_in = CAST(@rowlock_start AS SIGNED) OR (q.made_in = 0 AND durable));
END;
SET SESSION sql_mode = @rowlock_sql_mode;

UPDATE rowlock_meta SET schema_version = greatest(schema_version, 2), oldest_reader = greatest(oldest_reader, 2);

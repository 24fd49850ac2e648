-- How long a term can last at most after it was last taken, renewed or extended, in milliseconds, and the term that this was
-- written for: with another one the row was taken by a program that does not know these columns. lib/doc/lease.md. Without a
-- default, and last, so that no row is rewritten. May be run again, as 001: MySQL has no ADD COLUMN IF NOT EXISTS; 1060 is
-- a column that is there already. Both come by one ALTER, which is done whole or not at all.
DROP PROCEDURE IF EXISTS rowlock_add_columns;
CREATE PROCEDURE rowlock_add_columns()
BEGIN
  DECLARE CONTINUE HANDLER FOR 1060 BEGIN END;
  ALTER TABLE rowlock_locks
    ADD COLUMN longest BIGINT,
    ADD COLUMN longest_term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
END;
CALL rowlock_add_columns();
DROP PROCEDURE rowlock_add_columns;

-- The procedures of version 4 (migrations/mysql/004_functions.up.sql says how they work). The first one writes these columns now,
-- the other three never touch them. Besides, for MariaDB's innodb_snapshot_isolation, which is on by default since 11.6: each
-- statement that meets rows of others runs without it, or a renewal since the caller's snapshot would be error 1020, and the end of the
-- caller's transaction. The server itself puts the setting back after the statement. MySQL, and a MariaDB without that
-- default, read a comment: what counts is the server that makes the procedures. With a procedure the server drops the rights
-- that were granted on it: give EXECUTE again (schema/mysql-grants.sql).
SET @rowlock_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

DROP PROCEDURE IF EXISTS rowlock_try_acquire;

-- out_term and out_token are null: busy. First a plain read: what it shows as held is busy without locking the row, which would
-- keep its holder from renewing until the caller's transaction ends (InnoDB lets go of no row before, at REPEATABLE READ). In
-- an old snapshot a lock that was given back since is busy, too; and a row that looks absent is inserted before it
-- is read FOR UPDATE, which would lock the gap. Then SKIP LOCKED: of two takers the second one is refused at once. In
-- autocommit that lock is gone with its statement; the UPDATE looks at all of it again. The row that is locked must be the
-- one that the plain read has shown, in each column that a term changes: at REPEATABLE READ that read is as old as the caller's
-- snapshot, and somebody who had the lock since may have written what the caller can't see. Busy then, until a new transaction.
-- Where there was no row, the floor must be the one that was seen, too. The UPDATE compares it, which at REPEATABLE READ reads its
-- newest version, and locks it, and at READ COMMITTED reads the same without a lock. (A SELECT that does needs rights to change
-- the table in MySQL before 8.0.22.)
-- The floor is looked up by the row's token, as in lock_take. owner_thread -1: no thread and no explicit owner of the library
-- is ever the same.
CREATE PROCEDURE rowlock_try_acquire(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_ttl_ms BIGINT,
  IN in_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_term VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  OUT out_token BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
take: BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
  DECLARE wanted VARBINARY(255);
  DECLARE fresh VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE other VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE takeable, locked INT;
  DECLARE seen_term, seen_longest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE seen_token, seen_renewals BIGINT;
  DECLARE seen_highest BIGINT DEFAULT 0;
  DECLARE seen_at, seen_until DATETIME(6);
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR 1205 BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    SET out_term = NULL, out_token = NULL;
    IF @@GLOBAL.innodb_rollback_on_timeout THEN
      RESIGNAL;
    END IF;
  END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET out_term = NULL, out_token = NULL;
  IF in_name IS NULL OR octet_length(in_name) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'a lock''s name must have 1 to 255 bytes';
  END IF;
  IF in_ttl_ms IS NULL OR in_ttl_ms NOT BETWEEN 100 AND 31622400000 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the ttl is out of range: 100 ms to 366 days';
  END IF;
  IF octet_length(in_note) > 1024 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the note is longer than 1024 bytes';
  END IF;
  IF abs(timestampdiff(SECOND, now(6), sysdate(6))) >= 300 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30004,
      MESSAGE_TEXT = 'this session has set its time: SET timestamp = DEFAULT before a lock is taken';
  END IF;
  SET wanted = CAST(in_name AS BINARY);
  SET fresh = left(sha2(concat(uuid(), rand(), connection_id(), uuid()), 256), 32);
  SET present = utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND;
  SET SESSION innodb_lock_wait_timeout = 1;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  SELECT l.strategy, l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= present),
    l.term, l.token, l.renewals, l.acquired_at, l.expires_at, l.longest_term
  INTO other, takeable, seen_term, seen_token, seen_renewals, seen_at, seen_until, seen_longest
  FROM rowlock_locks AS l WHERE l.name = wanted;
  IF seen_at IS NULL THEN
    -- No row, or one that never had a term: perhaps this transaction has put it there itself, in a take that came to nothing. Whoever
    -- has had the name since has raised one of these two with its end, or has left another row.
    SELECT greatest(m.token_floor, coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = wanted), 0))
    INTO seen_highest FROM rowlock_meta AS m WHERE m.id = 1;
  END IF;
  IF other IS NULL THEN
    SET seen_token = 0, seen_renewals = 0, seen_until = present, seen_longest = fresh;
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    INSERT INTO rowlock_locks (name, strategy, token, expires_at, longest_term)
    VALUES (wanted, 'lease', 0, present, fresh)
    ON DUPLICATE KEY UPDATE name = rowlock_locks.name;
  ELSEIF other <> 'lease' THEN
    SET problem = concat('the lock ''', left(CONVERT(in_name USING ascii), 64), ''' is used with another strategy than lease');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30003, MESSAGE_TEXT = problem;
  ELSEIF NOT takeable THEN
    SET SESSION innodb_lock_wait_timeout = patience;
    LEAVE take;
  END IF;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  SELECT 1 INTO locked FROM rowlock_locks AS l FORCE INDEX (PRIMARY)
  WHERE l.name = wanted AND l.strategy = 'lease'
    AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= present))
    AND l.term <=> seen_term AND l.token = seen_token AND l.renewals = seen_renewals AND l.acquired_at <=> seen_at
    AND l.expires_at = seen_until AND l.longest_term <=> seen_longest
  FOR UPDATE SKIP LOCKED;
  IF locked IS NOT NULL THEN
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_locks AS l SET
      l.token = greatest(
        l.token + 1,
        timestampdiff(MICROSECOND, '1970-01-01', present),
        CASE WHEN l.token = 0 THEN (
          SELECT 1 + greatest(m.token_floor,
            coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
          FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END),
      l.owner_host = substring_index(user(), '@', -1),
      l.owner_pid = connection_id(),
      l.owner_process = replace(uuid(), '-', ''),
      l.owner_thread = -1,
      l.renewals = 0,
      l.ttl = in_ttl_ms,
      l.takeover = 'clock',
      l.acquired_at = present,
      l.expires_at = present + INTERVAL 1000 * in_ttl_ms MICROSECOND,
      l.hard_until = NULL,
      l.revoked = 0,
      l.note = coalesce(in_note, ''),
      l.longest = in_ttl_ms,
      l.longest_term = fresh,
      l.term = fresh
    WHERE l.name = wanted AND l.strategy = 'lease'
      AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= present))
      AND CASE WHEN seen_at IS NULL THEN coalesce((
          SELECT greatest(m.token_floor,
            coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
          FROM rowlock_meta AS m WHERE m.id = 1 + l.token) <= seen_highest, TRUE) ELSE TRUE END;
    -- No row here, if somebody had the name since the snapshot, or has taken this over already: a pause of a whole ttl.
    SELECT l.term, l.token INTO out_term, out_token FROM rowlock_locks AS l WHERE l.name = wanted AND l.term = fresh;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

DROP PROCEDURE IF EXISTS rowlock_renew;

-- out_ok 1: renewed by the ttl it was taken with. 0: lost (or revoked, or at its hard limit: it ends at its expiry). Null: a
-- transaction has had the row locked for a second; not lost by that, ask again. By name and term alone, never shortens,
-- never passes the hard limit, never prolongs a revoked row.
CREATE PROCEDURE rowlock_renew(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_ok TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
  DECLARE EXIT HANDLER FOR 1205 BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    SET out_ok = NULL;
    IF @@GLOBAL.innodb_rollback_on_timeout THEN
      RESIGNAL;
    END IF;
  END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET out_ok = NULL;
  SET present = CASE WHEN abs(timestampdiff(SECOND, now(6), sysdate(6))) < 300
    THEN utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND
    ELSE CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(1000000 * unix_timestamp(sysdate(6)) AS SIGNED) MICROSECOND END;
  SET SESSION innodb_lock_wait_timeout = 1;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  UPDATE rowlock_locks AS l SET
    l.expires_at = greatest(l.expires_at, least(
      present + INTERVAL 1000 * l.ttl MICROSECOND,
      coalesce(l.hard_until, present + INTERVAL 1000 * l.ttl MICROSECOND))),
    l.renewals = l.renewals + 1
  WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY)
    AND l.revoked = 0 AND (l.hard_until IS NULL OR l.hard_until > present);
  SET out_ok = ROW_COUNT() > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

DROP PROCEDURE IF EXISTS rowlock_release;

-- out_ok 1: given back. 0: it was not held any more, nothing was done. Null: as for rowlock_renew; it ends by its expiry, or ask
-- again. A row of unique_insert is given back by DELETE, not by this.
CREATE PROCEDURE rowlock_release(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_ok TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
  DECLARE EXIT HANDLER FOR 1205 BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    SET out_ok = NULL;
    IF @@GLOBAL.innodb_rollback_on_timeout THEN
      RESIGNAL;
    END IF;
  END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET out_ok = NULL;
  SET present = CASE WHEN abs(timestampdiff(SECOND, now(6), sysdate(6))) < 300
    THEN utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND
    ELSE CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(1000000 * unix_timestamp(sysdate(6)) AS SIGNED) MICROSECOND END;
  SET SESSION innodb_lock_wait_timeout = 1;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  UPDATE rowlock_locks AS l SET l.expires_at = present, l.term = NULL
  WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY) AND l.strategy = 'lease';
  SET out_ok = ROW_COUNT() > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

DROP PROCEDURE IF EXISTS rowlock_require;

-- In the transaction that writes what the lock protects: renews, so that a takeover waits for the transaction's end; or fails
-- with 30001 (SQLSTATE 45000), whereupon the caller must roll back: an error alone does not, here. To be called after the
-- last ROLLBACK TO SAVEPOINT and the last DDL, which would end the guard. In autocommit it guards nothing. A row that
-- another transaction guards: 1205 after a second.
CREATE PROCEDURE rowlock_require(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET present = CASE WHEN abs(timestampdiff(SECOND, now(6), sysdate(6))) < 300
    THEN utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND
    ELSE CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(1000000 * unix_timestamp(sysdate(6)) AS SIGNED) MICROSECOND END;
  SET SESSION innodb_lock_wait_timeout = 1;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  UPDATE rowlock_locks AS l SET
    l.expires_at = greatest(l.expires_at, least(
      present + INTERVAL 1000 * l.ttl MICROSECOND,
      coalesce(l.hard_until, present + INTERVAL 1000 * l.ttl MICROSECOND))),
    l.renewals = l.renewals + 1
  WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY)
    AND l.revoked = 0 AND (l.hard_until IS NULL OR l.hard_until > present);
  IF ROW_COUNT() = 0 THEN
    SET problem = concat('the lock ''', left(CONVERT(coalesce(in_name, 'null') USING ascii), 64), ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

SET SESSION sql_mode = @rowlock_sql_mode;
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 5);

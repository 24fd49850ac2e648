-- For moving from a hand-made lock table, as many articles recommend it, to rowlock, while old and new programs run; for
-- MySQL and MariaDB:
--
--   CREATE TABLE methodLock (id ..., method_name VARCHAR(64) NOT NULL UNIQUE, `desc` ..., update_time ...);
--   old programs: INSERT INTO methodLock (method_name, ...) takes, a duplicate-key error means busy, DELETE gives back
--
-- Apply this file once, before the first new program uses one of these names (rowlock's tables must be there; change
-- the names in it if yours differ): from then on each row of methodLock has its counterpart in rowlock_locks, made
-- and deleted in the same transaction. Old programs stay as they are, and get the same error as ever (1062) while a
-- new one holds the name. New programs use the same names, spelt exactly alike (rowlock compares bytes), with
-- strategy unique_insert (`rowlock run --strategy unique_insert NAME ...`); with lease they would keep the old ones
-- out for ever. `rowlock list` shows what old programs hold, with the owner methodLock and an expiry a hundred years
-- ahead: they have none, so the lock of one that died is freed as before, by DELETE FROM methodLock WHERE
-- method_name = ... (not TRUNCATE, which calls no trigger).
--
-- When the last old program is gone: DROP TABLE methodLock; its triggers go with it.

-- Each trigger is one statement, so that no DELIMITER is needed. They run with the rights of the user who made them (their
-- definer): the old programs' user needs no rights on rowlock's tables. Make them as a user who has rights on these two
-- tables, not as root. And grant the old programs' user no CREATE TEMPORARY TABLES here: these servers let a session's
-- temporary table hide rowlock_locks from a trigger, however it is named, so that this session (no other) would lock
-- nothing. An INSERT that waits in the second trigger (for a taker that has not committed yet) finds the row afterwards,
-- and fails as on a duplicate in methodLock itself; also under INSERT IGNORE, which is not valid for triggers.

-- What has expired may be taken, as rowlock itself does it. An INSERT that had to wait for the row looks at it again. A
-- session that has set its clock forward (SET timestamp moves utc_timestamp() and now(), but not sysdate()) clears
-- nothing: otherwise it would take locks that live. Both clocks are the session's time zone's, where an hour may come twice:
-- within two hours after the zone was set back (by a clock that may be wrong) only what expired two hours ago is cleared.
CREATE TRIGGER rowlock_clear BEFORE INSERT ON methodLock FOR EACH ROW
  DELETE FROM rowlock_locks
  WHERE name = CAST(CONVERT(NEW.method_name USING utf8mb4) AS BINARY) AND strategy = 'unique_insert'
    AND (term IS NULL OR (takeover = 'clock' AND now(6) <= sysdate(6) AND expires_at <= utc_timestamp(6) - INTERVAL
      CASE WHEN timestampdiff(SECOND, from_unixtime(unix_timestamp() - 7200), from_unixtime(unix_timestamp())) < 7200
        THEN 2 ELSE 0 END HOUR));

CREATE TRIGGER rowlock_take BEFORE INSERT ON methodLock FOR EACH ROW FOLLOWS rowlock_clear
  INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_process, ttl, acquired_at, expires_at, note)
  VALUES (CAST(CONVERT(NEW.method_name USING utf8mb4) AS BINARY), 'unique_insert', replace(uuid(), '-', ''), 0,
    'methodLock', 'methodLock', 3155760000000, utc_timestamp(6), utc_timestamp(6) + INTERVAL 36525 DAY,
    'by a row in methodLock');

CREATE TRIGGER rowlock_give_back AFTER DELETE ON methodLock FOR EACH ROW
  DELETE FROM rowlock_locks
  WHERE name = CAST(CONVERT(OLD.method_name USING utf8mb4) AS BINARY) AND owner_process = 'methodLock';

-- What was held before the triggers came. FOR UPDATE: nobody gives one of these back in between, which would leave its
-- counterpart behind. Fails, and changes nothing, if a new program holds one of these names already: let it end, and
-- apply this statement again.
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_process, ttl, acquired_at, expires_at, note)
SELECT CAST(CONVERT(m.method_name USING utf8mb4) AS BINARY), 'unique_insert', replace(uuid(), '-', ''), 0,
  'methodLock', 'methodLock', 3155760000000, utc_timestamp(6), utc_timestamp(6) + INTERVAL 36525 DAY,
  'by a row in methodLock'
FROM methodLock AS m
WHERE NOT EXISTS (
  SELECT 1 FROM rowlock_locks AS l
  WHERE l.name = CAST(CONVERT(m.method_name USING utf8mb4) AS BINARY) AND l.owner_process = 'methodLock')
FOR UPDATE;

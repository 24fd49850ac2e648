-- rowlock's tables and procedures for MySQL 8.0 and MariaDB 10.6, and later. `rowlock migrate sql` prints them for the client
-- `mysql`, and with another table prefix or database. Times are UTC.
--
-- Whatever part of this was run before, it may be run again from its start: in these databases each CREATE commits.
-- rowlock_meta's row comes last. Without it there is no version yet.

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE IF NOT EXISTS rowlock_meta (
  id             TINYINT     NOT NULL PRIMARY KEY CHECK (id = 1),
  database_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- random; tells this set of tables from every other
  schema_version INT         NOT NULL,        -- the migration that was applied last, by whatever tool
  oldest_reader  INT         NOT NULL,        -- programs made for an older schema version must not use these tables
  token_floor    BIGINT      NOT NULL         -- no token at or below it is drawn for a name without a row
) ENGINE = InnoDB;

-- What `rowlock migrate` did: for people, and to notice texts that differ. What is there is said by rowlock_meta.
CREATE TABLE IF NOT EXISTS rowlock_migrations (
  version    INT         NOT NULL PRIMARY KEY,
  name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  checksum   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- of migrations/mysql/NNN_name.up.sql
  applied_at DATETIME(6) NOT NULL
) ENGINE = InnoDB;

-- One row for each name that was ever taken, until it is reaped. Whether a name may be taken is decided by its own row
-- alone: term is null, or expires_at has passed by the database's clock. Names are bytes: in a text column, also a "_bin"
-- one, blanks at the end would not count. InnoDB, whatever the server's default: other engines lock no rows.
CREATE TABLE IF NOT EXISTS rowlock_locks (
  name          VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- lease, unique_insert, row_lock, shared, semaphore: one name, one
  term          VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin,  -- random id of the present hold; null: free
  token         BIGINT        NOT NULL,       -- fencing token of the latest term; 0: no term yet
  owner_host    VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,  -- host and pid are for people,
  owner_pid     BIGINT,
  owner_process VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,  -- process (a random id, or an explicit owner's text) and thread decide
  owner_thread  BIGINT,                       -- 0: explicit owner
  renewals      BIGINT        NOT NULL DEFAULT 0,
  ttl           BIGINT        NOT NULL DEFAULT 0,  -- milliseconds that a renewal is for
  takeover      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'clock',  -- clock, observed
  acquired_at   DATETIME(6),
  expires_at    DATETIME(6)   NOT NULL,       -- of a free row: since when it is free
  hard_until    DATETIME(6),                  -- null, or the end that renewal can't pass
  revoked       TINYINT       NOT NULL DEFAULT 0,  -- 1: an operator asked for it back
  note          VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  longest       BIGINT,                       -- milliseconds that this term can last at most from a change on, and
  longest_term  VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin,  -- whose, also when that is gone; another than term: plain SQL of others took the row
  permit_limit  BIGINT,                       -- strategy semaphore: the limit for all who name none
  intent_units  BIGINT,                       -- shared, semaphore: what the first in line waits for,
  intent_term   VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin,  -- under which id,
  intent_until  DATETIME(6)                   -- and until when nobody else takes it
) ENGINE = InnoDB;

-- The latest token of names whose lock row does not outlive the term.
CREATE TABLE IF NOT EXISTS rowlock_tokens (
  name  VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token BIGINT         NOT NULL
) ENGINE = InnoDB;

-- One row for each permit that is held: locks that several may hold at a time (strategies shared and semaphore). Its columns are
-- those of rowlock_locks, and two of its own. The name's row in rowlock_locks is the anchor, whose row lock orders those who count.
CREATE TABLE IF NOT EXISTS rowlock_permits (
  name          VARBINARY(255) NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  term          VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token         BIGINT        NOT NULL,
  owner_host    VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  owner_pid     BIGINT,
  owner_process VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  owner_thread  BIGINT,
  renewals      BIGINT        NOT NULL DEFAULT 0,
  ttl           BIGINT        NOT NULL DEFAULT 0,  -- milliseconds
  takeover      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'clock',
  acquired_at   DATETIME(6),
  expires_at    DATETIME(6)   NOT NULL,
  hard_until    DATETIME(6),
  revoked       TINYINT       NOT NULL DEFAULT 0,
  note          VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  longest       BIGINT,
  longest_term  VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin,
  units         BIGINT        NOT NULL CHECK (units > 0),
  told          BIGINT        NOT NULL,       -- the limit that its taker was told
  PRIMARY KEY (name, term)
) ENGINE = InnoDB;

-- One row: what the reaper did last, for people.
CREATE TABLE IF NOT EXISTS rowlock_reaper (
  id          TINYINT NOT NULL PRIMARY KEY CHECK (id = 1),
  started_at  DATETIME(6),                    -- null: it never ran
  finished_at DATETIME(6),
  host        VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  pid         BIGINT,
  report      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  -- JSON
) ENGINE = InnoDB;
INSERT INTO rowlock_reaper (id) VALUES (1) ON DUPLICATE KEY UPDATE id = rowlock_reaper.id;

-- Locks that several databases grant by majority (strategy quorum): lib/doc/quorum.md. One row: of which quorum this database is a
-- member, in which epoch, and whether it votes. Without a quorum it has no ids.
CREATE TABLE IF NOT EXISTS rowlock_quorum (
  id        INT         NOT NULL PRIMARY KEY CHECK (id = 1),
  quorum_id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  epoch     BIGINT      NOT NULL DEFAULT 0,
  epoch_id  VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  members   VARCHAR(4096) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  max_ttl   BIGINT      NOT NULL DEFAULT 0,   -- milliseconds
  votes     TINYINT     NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT INTO rowlock_quorum (id) VALUES (1) ON DUPLICATE KEY UPDATE id = rowlock_quorum.id;

-- For transaction::admit() and rowlock_admit(): the highest token of such a lock that was admitted here.
CREATE TABLE IF NOT EXISTS rowlock_admitted (
  name  VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token BIGINT         NOT NULL
) ENGINE = InnoDB;

-- For SQL without C++: procedures that take, renew, guard and give back a lock of strategy lease, with the same row and the same
-- conditions as the library (lib/sql/mysql/lock.sql), so that a program in any language, or a trigger, shares locks with
-- programs that use it. For MySQL and MariaDB; they run with the rights of whoever calls them. lib/doc/functions.md says
-- what interleaves.
--
-- * They work in autocommit, where each statement of a procedure is a transaction of its own, in the caller's transaction
--   at any isolation level, and called by a trigger: what must be exact is decided by one UPDATE, which reads the row's
--   newest version, and a plain read afterwards, which sees one's own change whatever the snapshot is. (MySQL and MariaDB
--   let triggers call procedures that have no transaction control, as these.)
-- * A row that another transaction has locked is waited for for a second at most, whatever the session's innodb_lock_wait_timeout
--   is: that is set, and put back also after an error. (A statement that is ended by KILL QUERY just then leaves it at 1.)
--   Where innodb_rollback_on_timeout is on, the engine has ended the transaction: 1205 is let out then. So are
--   1213 and 1020, which end it anywhere. (1020: MariaDB's innodb_snapshot_isolation. Where it is on by default, since 11.6,
--   each statement that meets rows of others runs without it, and the server puts it back. MySQL reads a comment.)
-- * The time is taken from sysdate(6), which a caller's SET timestamp does not move (unless the server was started with
--   --sysdate-is-now), by the session's time zone: as its distance from now(6), which is what utc_timestamp(6) is in
--   UTC. An hour of summer time can come in between only if that distance is great.
-- * Names come as text in any character set and are compared as the bytes of their UTF-8; terms as bytes.
-- * LAST_INSERT_ID() stays what it was: there is no AUTO_INCREMENT here.
-- * A routine keeps the SQL mode that it was made in.
SET @rowlock_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

-- Above which all tokens are that are drawn now, of leases of so many milliseconds; null: none is granted now. Version 2 makes it
-- what it says.
DROP PROCEDURE IF EXISTS rowlock_granting;
CREATE PROCEDURE rowlock_granting(IN in_ttl_ms BIGINT, OUT out_base BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  SET out_base = 0;
END;

-- Since when the database is sure of what it has granted. A lease from before that has expired may have been lost, and come back by
-- a failover: it is renewed and required no more. Version 2 makes it what it says.
DROP PROCEDURE IF EXISTS rowlock_begun;
CREATE PROCEDURE rowlock_begun(OUT out_begun DATETIME(6))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  SET out_begun = '1970-01-01';
END;

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
DROP PROCEDURE IF EXISTS rowlock_try_acquire;
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
  DECLARE seen_token, seen_renewals, base BIGINT;
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
  IF other IS NULL OR (other = 'lease' AND takeable) THEN
    CALL rowlock_granting(in_ttl_ms, base);
    IF base IS NULL THEN
      SET SESSION innodb_lock_wait_timeout = patience;
      LEAVE take;
    END IF;
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
        base + 1,
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

-- out_ok 1: renewed by the ttl it was taken with. 0: lost (or revoked, or at its hard limit: it ends at its expiry). Null: a
-- transaction has had the row locked for a second; not lost by that, ask again. By name and term alone, never shortens,
-- never passes the hard limit, never prolongs a revoked row.
DROP PROCEDURE IF EXISTS rowlock_renew;
CREATE PROCEDURE rowlock_renew(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_ok TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present, since DATETIME(6);
  DECLARE met INT;
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
  again: LOOP
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_locks AS l SET
      l.expires_at = greatest(l.expires_at, least(
        present + INTERVAL 1000 * l.ttl MICROSECOND,
        coalesce(l.hard_until, present + INTERVAL 1000 * l.ttl MICROSECOND))),
      l.renewals = l.renewals + 1
    WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY)
      AND l.revoked = 0 AND (l.hard_until IS NULL OR l.hard_until > present)
      AND (l.expires_at > present OR l.acquired_at >= since);
    SET met = ROW_COUNT();
    IF met > 0 OR since IS NOT NULL THEN
      LEAVE again;
    END IF;
    CALL rowlock_begun(since);
  END LOOP;
  SET out_ok = met > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

-- out_ok 1: given back. 0: it was not held any more, nothing was done. Null: as for rowlock_renew; it ends by its expiry, or ask
-- again. A row of unique_insert is given back by DELETE, not by this.
DROP PROCEDURE IF EXISTS rowlock_release;
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

-- In the transaction that writes what the lock protects: renews, so that a takeover waits for the transaction's end; or fails
-- with 30001 (SQLSTATE 45000), whereupon the caller must roll back: an error alone does not, here. To be called after the
-- last ROLLBACK TO SAVEPOINT and the last DDL, which would end the guard. In autocommit it guards nothing. A row that
-- another transaction guards: 1205 after a second.
DROP PROCEDURE IF EXISTS rowlock_require;
CREATE PROCEDURE rowlock_require(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present, since DATETIME(6);
  DECLARE met INT;
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET present = CASE WHEN abs(timestampdiff(SECOND, now(6), sysdate(6))) < 300
    THEN utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND
    ELSE CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(1000000 * unix_timestamp(sysdate(6)) AS SIGNED) MICROSECOND END;
  SET SESSION innodb_lock_wait_timeout = 1;
  again: LOOP
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_locks AS l SET
      l.expires_at = greatest(l.expires_at, least(
        present + INTERVAL 1000 * l.ttl MICROSECOND,
        coalesce(l.hard_until, present + INTERVAL 1000 * l.ttl MICROSECOND))),
      l.renewals = l.renewals + 1
    WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY)
      AND l.revoked = 0 AND (l.hard_until IS NULL OR l.hard_until > present)
      AND (l.expires_at > present OR l.acquired_at >= since);
    SET met = ROW_COUNT();
    IF met > 0 OR since IS NOT NULL THEN
      LEAVE again;
    END IF;
    CALL rowlock_begun(since);
  END LOOP;
  IF met = 0 THEN
    SET problem = concat('the lock ''', left(CONVERT(coalesce(in_name, 'null') USING ascii), 64), ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

-- For SQL without C++: permits (strategies shared and semaphore) and "once", with the same rows and the same conditions as the
-- library (lib/sql/mysql/permits.sql and once.sql).

-- For the three takes below. A transaction of its own at READ COMMITTED, which it ends: no permit is taken in the caller's, because
-- a count must begin after the anchor's lock was got, and what the caller's transaction can see is not known here (C43: by a view from
-- before the wait there were two writers; at READ UNCOMMITTED a release that is rolled back would not count); and because the
-- anchor would stay locked, busy for all who would take the name, until the caller's COMMIT. Who comes in between:
-- Two takers: the second waits for the anchor, a second at most; what it counts afterwards has the first one's permit.
-- A release that is not committed: its units count still. A renewal or a guard: changes no units, and not the anchor.
-- A holder whose permit has expired, and who is late: its permit counts until it is deleted, by name and term, and not while its
--   holder has it locked (C42). That is done before the anchor is locked, and waits for nobody.
-- The reaper deletes the anchor: it is not there when it is to be locked. Busy.
-- The handlers undo the transaction (C56); whoever catches an error has none that is open.
DROP PROCEDURE IF EXISTS rowlock_take_permit;
CREATE PROCEDURE rowlock_take_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_strategy VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  IN in_units BIGINT,
  IN in_limit BIGINT,
  IN in_ttl_ms BIGINT,
  IN in_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_term VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  OUT out_token BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
take: BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present, intent_ends DATETIME(6);
  DECLARE wanted VARBINARY(255);
  DECLARE fresh, late VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE other VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE most, live, taken, intended, drawn, base BIGINT;
  DECLARE anchored, due, open_transaction, ended, begun INT DEFAULT 0;
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE over_terms CURSOR FOR
    SELECT p.term FROM rowlock_permits AS p
    WHERE p.name = wanted AND p.takeover = 'clock' AND p.expires_at <= present ORDER BY p.term LIMIT 1000;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET ended = 1;
  DECLARE EXIT HANDLER FOR 1205 BEGIN
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = patience;
    SET out_term = NULL, out_token = NULL;
  END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    IF begun THEN
      ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
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
  IF in_limit NOT BETWEEN 1 AND CASE in_strategy WHEN 'shared' THEN 2147483647 ELSE 2147483646 END THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the limit is out of range: 1 to 2147483646';
  END IF;
  -- 1568: a transaction is open. If not, this is for the transaction that begins below.
  BEGIN
    DECLARE CONTINUE HANDLER FOR 1568 SET open_transaction = 1;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END;
  IF open_transaction THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30006,
      MESSAGE_TEXT = 'a permit is taken before the transaction begins: until its COMMIT nobody else could take the name';
  END IF;
  START TRANSACTION;
  SET begun = 1;
  SET wanted = CAST(in_name AS BINARY);
  SET fresh = left(sha2(concat(uuid(), rand(), connection_id(), uuid()), 256), 32);
  SET present = utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND;
  SET SESSION innodb_lock_wait_timeout = 1;
  SELECT l.strategy, l.permit_limit INTO other, most FROM rowlock_locks AS l WHERE l.name = wanted;
  IF other <> in_strategy THEN
    SET problem = concat('the lock ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is used with another strategy');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30003, MESSAGE_TEXT = problem;
  END IF;
  SET most = coalesce(in_limit, most);
  IF most IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the name has no limit: name one, or set one';
  END IF;
  IF in_units IS NULL OR in_units NOT BETWEEN 1 AND most THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the units are out of range: 1 to the limit';
  END IF;
  IF other IS NULL THEN
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES (wanted, in_strategy, 0, present)
    ON DUPLICATE KEY UPDATE name = rowlock_locks.name;
  END IF;
  -- Plain reads: what is busy costs no lock. Only what would fit without those that have expired is worth deleting them.
  SELECT coalesce(sum(CASE WHEN p.takeover = 'clock' AND p.expires_at <= present THEN 0 ELSE p.units END), 0),
    coalesce(sum(p.units), 0)
  INTO live, taken FROM rowlock_permits AS p WHERE p.name = wanted;
  IF in_units + live > most THEN
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = patience;
    LEAVE take;
  END IF;
  CALL rowlock_granting(in_ttl_ms, base);
  IF base IS NULL THEN
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = patience;
    LEAVE take;
  END IF;
  IF in_units + taken > most THEN
    SET ended = 0;
    OPEN over_terms;
    each_late: LOOP
      FETCH over_terms INTO late;
      IF ended THEN
        LEAVE each_late;
      END IF;
      SET due = 0;
      /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
      SELECT 1 INTO due FROM rowlock_permits AS p FORCE INDEX (PRIMARY)
      WHERE p.name = wanted AND p.term = late AND p.takeover = 'clock' AND p.expires_at <= present
      FOR UPDATE SKIP LOCKED;
      IF due THEN
        /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
        DELETE FROM rowlock_permits
        WHERE name = wanted AND term = late AND takeover = 'clock' AND expires_at <= present;
      END IF;
      SET ended = 0;
    END LOOP;
    CLOSE over_terms;
  END IF;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  SELECT 1, coalesce(in_limit, l.permit_limit), l.intent_units, l.intent_until INTO anchored, most, intended, intent_ends
  FROM rowlock_locks AS l FORCE INDEX (PRIMARY) WHERE l.name = wanted AND l.strategy = in_strategy FOR UPDATE;
  -- A statement of its own, whose view is made after the lock was got. An intent is what the first in line waits for; one that ends
  -- more than 2 s ahead is none (C44).
  SELECT coalesce(sum(p.units), 0) INTO taken FROM rowlock_permits AS p WHERE p.name = wanted;
  SET present = utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND;
  IF intent_ends > present AND intent_ends <= present + INTERVAL 2 SECOND THEN
    SET taken = taken + coalesce(intended, 0);
  END IF;
  IF anchored AND in_units + taken <= most THEN
    INSERT INTO rowlock_permits (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
      acquired_at, expires_at, note, longest, longest_term, units, told)
    SELECT l.name, l.strategy, fresh,
      greatest(
        l.token + 1,
        base + 1,
        timestampdiff(MICROSECOND, '1970-01-01', present),
        CASE WHEN l.token = 0 THEN (
          SELECT 1 + greatest(m.token_floor,
            coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
          FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END),
      substring_index(user(), '@', -1), connection_id(), replace(uuid(), '-', ''), -1, in_ttl_ms, 'clock',
      present, present + INTERVAL 1000 * in_ttl_ms MICROSECOND, coalesce(in_note, ''), in_ttl_ms, fresh, in_units, most
    FROM rowlock_locks AS l FORCE INDEX (PRIMARY) WHERE l.name = wanted;
    SELECT p.token INTO drawn FROM rowlock_permits AS p WHERE p.name = wanted AND p.term = fresh;
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_locks AS l SET l.token = drawn, l.expires_at = present WHERE l.name = wanted;
  END IF;
  COMMIT AND NO CHAIN NO RELEASE;
  SET SESSION innodb_lock_wait_timeout = patience;
  IF drawn IS NOT NULL THEN
    SET out_term = fresh, out_token = drawn;
  END IF;
END;


-- out_term and out_token are null: busy. As whoever reads: beside all others who read.
DROP PROCEDURE IF EXISTS rowlock_try_acquire_shared;
CREATE PROCEDURE rowlock_try_acquire_shared(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_ttl_ms BIGINT,
  IN in_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_term VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  OUT out_token BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  CALL rowlock_take_permit(in_name, 'shared', 1, 2147483647, in_ttl_ms, in_note, out_term, out_token);
END;

-- The same as whoever writes: alone. It stands in no line: while readers come and go without a gap, it is busy.
DROP PROCEDURE IF EXISTS rowlock_try_acquire_exclusive;
CREATE PROCEDURE rowlock_try_acquire_exclusive(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_ttl_ms BIGINT,
  IN in_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_term VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  OUT out_token BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  CALL rowlock_take_permit(in_name, 'shared', 2147483647, 2147483647, in_ttl_ms, in_note, out_term, out_token);
END;

-- The same for some units of a limit, as a semaphore. A limit that is null: the one that was set.
DROP PROCEDURE IF EXISTS rowlock_try_acquire_permit;
CREATE PROCEDURE rowlock_try_acquire_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_units BIGINT,
  IN in_limit BIGINT,
  IN in_ttl_ms BIGINT,
  IN in_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_term VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  OUT out_token BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  CALL rowlock_take_permit(in_name, 'semaphore', in_units, in_limit, in_ttl_ms, in_note, out_term, out_token);
END;

-- As rowlock_renew, of a permit. By the whole primary key, so that no other permit of the name is waited for. (At REPEATABLE READ a
-- permit that is gone locks the gap where it was: end such a transaction soon.)
DROP PROCEDURE IF EXISTS rowlock_renew_permit;
CREATE PROCEDURE rowlock_renew_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_ok TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present, since DATETIME(6);
  DECLARE met INT;
  DECLARE wanted_term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
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
  SET wanted_term = CASE WHEN octet_length(in_term) <= 64 AND octet_length(in_term) = char_length(in_term)
    AND right(in_term, 1) <> ' ' THEN CONVERT(in_term USING ascii) END;
  SET SESSION innodb_lock_wait_timeout = 1;
  again: LOOP
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_permits AS p SET
      p.expires_at = greatest(p.expires_at, least(
        present + INTERVAL 1000 * p.ttl MICROSECOND,
        coalesce(p.hard_until, present + INTERVAL 1000 * p.ttl MICROSECOND))),
      p.renewals = p.renewals + 1
    WHERE p.name = CAST(in_name AS BINARY) AND p.term = wanted_term
      AND p.revoked = 0 AND (p.hard_until IS NULL OR p.hard_until > present)
      AND (p.expires_at > present OR p.acquired_at >= since);
    SET met = ROW_COUNT();
    IF met > 0 OR since IS NOT NULL THEN
      LEAVE again;
    END IF;
    CALL rowlock_begun(since);
  END LOOP;
  SET out_ok = met > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;


-- As rowlock_release, of a permit. Its units count until COMMIT.
DROP PROCEDURE IF EXISTS rowlock_release_permit;
CREATE PROCEDURE rowlock_release_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_ok TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE wanted_term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
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
  SET wanted_term = CASE WHEN octet_length(in_term) <= 64 AND octet_length(in_term) = char_length(in_term)
    AND right(in_term, 1) <> ' ' THEN CONVERT(in_term USING ascii) END;
  SET SESSION innodb_lock_wait_timeout = 1;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  DELETE FROM rowlock_permits WHERE name = CAST(in_name AS BINARY) AND term = wanted_term;
  SET out_ok = ROW_COUNT() > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;


-- As rowlock_require, with a permit: who takes the name meanwhile skips it, however late it is, and counts it.
DROP PROCEDURE IF EXISTS rowlock_require_permit;
CREATE PROCEDURE rowlock_require_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present, since DATETIME(6);
  DECLARE met INT;
  DECLARE wanted_term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET present = CASE WHEN abs(timestampdiff(SECOND, now(6), sysdate(6))) < 300
    THEN utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND
    ELSE CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(1000000 * unix_timestamp(sysdate(6)) AS SIGNED) MICROSECOND END;
  SET wanted_term = CASE WHEN octet_length(in_term) <= 64 AND octet_length(in_term) = char_length(in_term)
    AND right(in_term, 1) <> ' ' THEN CONVERT(in_term USING ascii) END;
  SET SESSION innodb_lock_wait_timeout = 1;
  again: LOOP
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_permits AS p SET
      p.expires_at = greatest(p.expires_at, least(
        present + INTERVAL 1000 * p.ttl MICROSECOND,
        coalesce(p.hard_until, present + INTERVAL 1000 * p.ttl MICROSECOND))),
      p.renewals = p.renewals + 1
    WHERE p.name = CAST(in_name AS BINARY) AND p.term = wanted_term
      AND p.revoked = 0 AND (p.hard_until IS NULL OR p.hard_until > present)
      AND (p.expires_at > present OR p.acquired_at >= since);
    SET met = ROW_COUNT();
    IF met > 0 OR since IS NOT NULL THEN
      LEAVE again;
    END IF;
    CALL rowlock_begun(since);
  END LOOP;
  IF met = 0 THEN
    SET problem = concat('the permit of ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;


-- For work that is to be done once. out_term and out_token: it is to be done here. Null, and out_done is 1: it was done, and out_result
-- is what rowlock_done said. Null, and out_done is 0: it is being done elsewhere. The take is rowlock_try_acquire's, for
-- strategy once: these servers make no procedure from text.
DROP PROCEDURE IF EXISTS rowlock_try_acquire_once;
CREATE PROCEDURE rowlock_try_acquire_once(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_ttl_ms BIGINT,
  IN in_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_term VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  OUT out_token BIGINT,
  OUT out_done TINYINT,
  OUT out_result VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
take: BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
  DECLARE wanted VARBINARY(255);
  DECLARE fresh VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE other VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE takeable, locked INT;
  DECLARE seen_term, seen_longest VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE seen_token, seen_renewals, base BIGINT;
  DECLARE seen_highest BIGINT DEFAULT 0;
  DECLARE seen_at, seen_until DATETIME(6);
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR 1205 BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    SET out_term = NULL, out_token = NULL, out_done = 0, out_result = NULL;
    IF @@GLOBAL.innodb_rollback_on_timeout THEN
      RESIGNAL;
    END IF;
  END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  SET out_term = NULL, out_token = NULL, out_done = 0, out_result = NULL;
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
  IF other IS NULL OR (other = 'once' AND takeable) THEN
    CALL rowlock_granting(in_ttl_ms, base);
    IF base IS NULL THEN
      SET SESSION innodb_lock_wait_timeout = patience;
      LEAVE take;
    END IF;
  END IF;
  IF other IS NULL THEN
    SET seen_token = 0, seen_renewals = 0, seen_until = present, seen_longest = fresh;
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    INSERT INTO rowlock_locks (name, strategy, token, expires_at, longest_term)
    VALUES (wanted, 'once', 0, present, fresh)
    ON DUPLICATE KEY UPDATE name = rowlock_locks.name;
  ELSEIF other <> 'once' THEN
    SET problem = concat('the lock ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is used with another strategy');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30003, MESSAGE_TEXT = problem;
  ELSEIF NOT takeable THEN
    -- No row: it is being done.
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    SELECT 1, l.note INTO out_done, out_result FROM rowlock_locks AS l
    WHERE l.name = wanted AND l.strategy = 'once' AND l.term IS NOT NULL AND l.owner_process IS NULL AND l.renewals = 0
      AND l.expires_at > present;
    SET SESSION innodb_lock_wait_timeout = patience;
    LEAVE take;
  END IF;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  SELECT 1 INTO locked FROM rowlock_locks AS l FORCE INDEX (PRIMARY)
  WHERE l.name = wanted AND l.strategy = 'once'
    AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= present))
    AND l.term <=> seen_term AND l.token = seen_token AND l.renewals = seen_renewals AND l.acquired_at <=> seen_at
    AND l.expires_at = seen_until AND l.longest_term <=> seen_longest
  FOR UPDATE SKIP LOCKED;
  IF locked IS NOT NULL THEN
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_locks AS l SET
      l.token = greatest(
        l.token + 1,
        base + 1,
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
    WHERE l.name = wanted AND l.strategy = 'once'
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

-- In the transaction that writes what is to be written once: makes the run's row the record that it is done, which is kept for so many
-- milliseconds; or fails with 30001, whereupon the caller must roll back. In force with COMMIT, together with the data. The
-- record's term is told to nobody, so that nothing renews it. As rowlock_require: after the last ROLLBACK TO SAVEPOINT and the last
-- DDL; 1205 after a second. Assigned from left to right: the term last.
DROP PROCEDURE IF EXISTS rowlock_done;
CREATE PROCEDURE rowlock_done(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_keep_ms BIGINT,
  IN in_result TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present, since DATETIME(6);
  DECLARE met INT;
  DECLARE fresh VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    SET SESSION innodb_lock_wait_timeout = patience;
    RESIGNAL;
  END;
  IF in_keep_ms IS NULL OR in_keep_ms NOT BETWEEN 1 AND 3153600000000 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'a record can''t be kept for so long: 1 ms to 36500 days';
  END IF;
  IF octet_length(in_result) > 1024 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the result is longer than 1024 bytes';
  END IF;
  SET present = CASE WHEN abs(timestampdiff(SECOND, now(6), sysdate(6))) < 300
    THEN utc_timestamp(6) + INTERVAL timestampdiff(MICROSECOND, now(6), sysdate(6)) MICROSECOND
    ELSE CAST('1970-01-01' AS DATETIME(6)) + INTERVAL CAST(1000000 * unix_timestamp(sysdate(6)) AS SIGNED) MICROSECOND END;
  SET fresh = left(sha2(concat(uuid(), rand(), connection_id(), uuid()), 256), 32);
  SET SESSION innodb_lock_wait_timeout = 1;
  again: LOOP
    /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
    UPDATE rowlock_locks AS l SET
      l.owner_process = NULL,
      l.renewals = 0,
      l.ttl = in_keep_ms,
      l.takeover = 'clock',
      l.acquired_at = present,
      l.expires_at = present + INTERVAL 1000 * in_keep_ms MICROSECOND,
      l.hard_until = NULL,
      l.revoked = 0,
      l.note = coalesce(in_result, ''),
      l.longest = in_keep_ms,
      l.longest_term = fresh,
      l.term = fresh
    WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY) AND l.strategy = 'once'
      AND l.revoked = 0
      AND (l.expires_at > present OR l.acquired_at >= since);
    SET met = ROW_COUNT();
    IF met > 0 OR since IS NOT NULL THEN
      LEAVE again;
    END IF;
    CALL rowlock_begun(since);
  END LOOP;
  IF met = 0 THEN
    SET problem = concat('the lock ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

-- As rowlock_release, for a run that was not done: the next one who asks may try. A record is not touched.
DROP PROCEDURE IF EXISTS rowlock_release_once;
CREATE PROCEDURE rowlock_release_once(
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
  WHERE l.name = CAST(in_name AS BINARY) AND CAST(l.term AS BINARY) = CAST(in_term AS BINARY) AND l.strategy = 'once';
  SET out_ok = ROW_COUNT() > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

-- For SQL without C++: in the transaction that is to be kept from a holder that has lost such a lock. Raises the highest token that was
-- admitted, or fails with 30001 if it is higher already: then ROLLBACK. Two at once: the second waits for the first one's end, as
-- long as innodb_lock_wait_timeout says, and decides by the newest version. A row that is there changes twice, to -token and back,
-- also if the token is the same again: Galera certifies nothing less.
DROP PROCEDURE IF EXISTS rowlock_admit;
CREATE PROCEDURE rowlock_admit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_token BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE known BIGINT;
  DECLARE problem VARCHAR(128) CHARACTER SET ascii;
  IF in_name IS NULL OR octet_length(in_name) NOT BETWEEN 1 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'a lock''s name must have 1 to 255 bytes';
  END IF;
  IF in_token IS NULL OR in_token <= 0 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'this token is none';
  END IF;
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  INSERT INTO rowlock_admitted (name, token) VALUES (CAST(in_name AS BINARY), 0), (CAST(in_name AS BINARY), in_token)
  ON DUPLICATE KEY UPDATE
    token = if(VALUES(token) = 0, -abs(rowlock_admitted.token), greatest(abs(rowlock_admitted.token), in_token));
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  SELECT a.token INTO known FROM rowlock_admitted AS a WHERE a.name = CAST(in_name AS BINARY) FOR UPDATE;
  IF known > in_token THEN
    SET problem = concat('the lock ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
END;
SET SESSION sql_mode = @rowlock_sql_mode;

INSERT INTO rowlock_meta VALUES (1, replace(uuid(), '-', ''), 1, 1, 0)
ON DUPLICATE KEY UPDATE schema_version = greatest(schema_version, 1);

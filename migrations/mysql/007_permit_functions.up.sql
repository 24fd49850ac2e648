-- For SQL without C++: permits (strategies shared and semaphore) and "once", with the same rows and the same conditions as the
-- library (lib/sql/mysql/permits.sql and once.sql). What is said of the procedures in 004_functions.up.sql and 005_longest.up.sql
-- is true of these: rights, waits, the time, character sets. lib/doc/functions.md says what interleaves. Nothing that was there is
-- changed: the server would drop the rights on a procedure that is made again. May be run again, as 001.
SET @rowlock_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

DROP PROCEDURE IF EXISTS rowlock_take_permit;

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
  DECLARE most, live, taken, intended, drawn BIGINT;
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


DROP PROCEDURE IF EXISTS rowlock_try_acquire_shared;

-- out_term and out_token are null: busy. As whoever reads: beside all others who read.
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

DROP PROCEDURE IF EXISTS rowlock_try_acquire_exclusive;

-- The same as whoever writes: alone. It stands in no line: while readers come and go without a gap, it is busy.
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

DROP PROCEDURE IF EXISTS rowlock_try_acquire_permit;

-- The same for some units of a limit, as a semaphore. A limit that is null: the one that was set.
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

DROP PROCEDURE IF EXISTS rowlock_renew_permit;

-- As rowlock_renew, of a permit. By the whole primary key, so that no other permit of the name is waited for. (At REPEATABLE READ a
-- permit that is gone locks the gap where it was: end such a transaction soon.)
CREATE PROCEDURE rowlock_renew_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  OUT out_ok TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
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
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  UPDATE rowlock_permits AS p SET
    p.expires_at = greatest(p.expires_at, least(
      present + INTERVAL 1000 * p.ttl MICROSECOND,
      coalesce(p.hard_until, present + INTERVAL 1000 * p.ttl MICROSECOND))),
    p.renewals = p.renewals + 1
  WHERE p.name = CAST(in_name AS BINARY) AND p.term = wanted_term
    AND p.revoked = 0 AND (p.hard_until IS NULL OR p.hard_until > present);
  SET out_ok = ROW_COUNT() > 0;
  SET SESSION innodb_lock_wait_timeout = patience;
END;


DROP PROCEDURE IF EXISTS rowlock_release_permit;

-- As rowlock_release, of a permit. Its units count until COMMIT.
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


DROP PROCEDURE IF EXISTS rowlock_require_permit;

-- As rowlock_require, with a permit: who takes the name meanwhile skips it, however late it is, and counts it.
CREATE PROCEDURE rowlock_require_permit(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
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
  /*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */
  UPDATE rowlock_permits AS p SET
    p.expires_at = greatest(p.expires_at, least(
      present + INTERVAL 1000 * p.ttl MICROSECOND,
      coalesce(p.hard_until, present + INTERVAL 1000 * p.ttl MICROSECOND))),
    p.renewals = p.renewals + 1
  WHERE p.name = CAST(in_name AS BINARY) AND p.term = wanted_term
    AND p.revoked = 0 AND (p.hard_until IS NULL OR p.hard_until > present);
  IF ROW_COUNT() = 0 THEN
    SET problem = concat('the permit of ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;


DROP PROCEDURE IF EXISTS rowlock_try_acquire_once;

-- For work that is to be done once. out_term and out_token: it is to be done here. Null, and out_done is 1: it was done, and out_result
-- is what rowlock_done said. Null, and out_done is 0: it is being done elsewhere. The take is rowlock_try_acquire's, for
-- strategy once (005_longest.up.sql says how it works): these servers make no procedure from text.
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
  DECLARE seen_token, seen_renewals BIGINT;
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

DROP PROCEDURE IF EXISTS rowlock_done;

-- In the transaction that writes what is to be written once: makes the run's row the record that it is done, which is kept for so many
-- milliseconds; or fails with 30001, whereupon the caller must roll back. In force with COMMIT, together with the data. The
-- record's term is told to nobody, so that nothing renews it. As rowlock_require: after the last ROLLBACK TO SAVEPOINT and the last
-- DDL; 1205 after a second. Assigned from left to right: the term last.
CREATE PROCEDURE rowlock_done(
  IN in_name TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_term TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN in_keep_ms BIGINT,
  IN in_result TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  DECLARE present DATETIME(6);
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
    AND l.revoked = 0;
  IF ROW_COUNT() = 0 THEN
    SET problem = concat('the lock ''',
      CASE WHEN octet_length(in_name) = char_length(in_name) THEN left(in_name, 64) ELSE '?' END, ''' is lost: roll back');
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = problem;
  END IF;
  SET SESSION innodb_lock_wait_timeout = patience;
END;

DROP PROCEDURE IF EXISTS rowlock_release_once;

-- As rowlock_release, for a run that was not done: the next one who asks may try. A record is not touched.
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

SET SESSION sql_mode = @rowlock_sql_mode;
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 7);

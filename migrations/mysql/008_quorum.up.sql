-- Locks that several databases grant by majority (strategy quorum): lib/doc/quorum.md. One row: of which quorum this database is a
-- member, in which epoch, and whether it votes. Without a quorum it has no ids. May be run again, as 001.
SET @rowlock_sql_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
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

DROP PROCEDURE IF EXISTS rowlock_admit;

-- For SQL without C++: in the transaction that is to be kept from a holder that has lost such a lock. Raises the highest token that was
-- admitted, or fails with 30001 if it is higher already: then ROLLBACK. Two at once: the second waits for the first one's end, as
-- long as innodb_lock_wait_timeout says, and decides by the newest version. A row that is there changes twice, to -token and back,
-- also if the token is the same again: Galera certifies nothing less.
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
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 8);

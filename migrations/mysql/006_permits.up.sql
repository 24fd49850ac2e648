-- Locks that several may hold at a time (strategies shared and semaphore): lib/doc/permits.md. One row for each permit that is
-- held, with the columns of rowlock_locks, and two of its own. The primary key finds all permits of a name. May be run again,
-- as 001.
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

-- Of the anchor, the name's row in rowlock_locks: the limit for all who name none, and what the head of the line waits for.
-- Without a default, and last, so that no row is rewritten. As in 005.
DROP PROCEDURE IF EXISTS rowlock_add_columns;
CREATE PROCEDURE rowlock_add_columns()
BEGIN
  DECLARE CONTINUE HANDLER FOR 1060 BEGIN END;
  ALTER TABLE rowlock_locks
    ADD COLUMN permit_limit BIGINT,
    ADD COLUMN intent_units BIGINT,
    ADD COLUMN intent_term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN intent_until DATETIME(6);
END;
CALL rowlock_add_columns();
DROP PROCEDURE rowlock_add_columns;
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 6);

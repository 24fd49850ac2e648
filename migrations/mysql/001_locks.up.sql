-- Whatever part of this was run before, it may be run again from its start: in these databases each CREATE TABLE commits.
-- rowlock_meta's row comes last. Without it there is no version yet.

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE IF NOT EXISTS rowlock_meta (
  id             TINYINT     NOT NULL PRIMARY KEY CHECK (id = 1),
  database_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- random; tells this set of tables from every other
  schema_version INT         NOT NULL,        -- the migration that was applied last, by whatever tool
  oldest_reader  INT         NOT NULL,        -- programs made for an older schema version must not use these tables
  token_floor    BIGINT      NOT NULL         -- no token at or below it is drawn for a name without a row
) ENGINE = InnoDB;

-- What `rowlock migrate` did. Empty when another tool applied these files.
CREATE TABLE IF NOT EXISTS rowlock_migrations (
  version    INT         NOT NULL PRIMARY KEY,
  name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  checksum   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  applied_at DATETIME(6) NOT NULL
) ENGINE = InnoDB;

-- Times are UTC. Names are bytes: in a text column, also a "_bin" one, blanks at the end would not count.
CREATE TABLE IF NOT EXISTS rowlock_locks (
  name          VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  term          VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin,  -- null: free
  token         BIGINT        NOT NULL,       -- of the latest term; 0: no term yet
  owner_host    VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  owner_pid     BIGINT,
  owner_process VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  owner_thread  BIGINT,
  renewals      BIGINT        NOT NULL DEFAULT 0,
  ttl           BIGINT        NOT NULL DEFAULT 0,  -- milliseconds
  takeover      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'clock',
  acquired_at   DATETIME(6),
  expires_at    DATETIME(6)   NOT NULL,       -- of a free row: since when it is free
  hard_until    DATETIME(6),                  -- null, or the end that renewal can't pass
  revoked       TINYINT       NOT NULL DEFAULT 0,
  note          VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''
) ENGINE = InnoDB;

INSERT INTO rowlock_meta VALUES (1, replace(uuid(), '-', ''), 1, 1, 0)
ON DUPLICATE KEY UPDATE schema_version = greatest(schema_version, 1);

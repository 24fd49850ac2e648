-- rowlock's tables for MySQL 8.0 and MariaDB 10.6, and later, as `rowlock migrate up` leaves them: to read, or to apply
-- where no migration tool is wanted (`mysql DATABASE <mysql.sql`). `rowlock migrate` recognizes tables that were made so.
-- `rowlock migrate sql` prints the same with another table prefix or database. Times are UTC.

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE rowlock_meta (
  id             TINYINT     NOT NULL PRIMARY KEY CHECK (id = 1),
  database_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- random; tells this set of tables from every other
  schema_version INT         NOT NULL,        -- the migration that was applied last, by whatever tool
  oldest_reader  INT         NOT NULL,        -- programs made for an older schema version must not use these tables
  token_floor    BIGINT      NOT NULL         -- no token at or below it is drawn for a name without a row
) ENGINE = InnoDB;

-- What `rowlock migrate` did: for people, and to notice texts that differ. What is there is said by rowlock_meta.
CREATE TABLE rowlock_migrations (
  version    INT         NOT NULL PRIMARY KEY,
  name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  checksum   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- of migrations/mysql/NNN_name.up.sql
  applied_at DATETIME(6) NOT NULL
) ENGINE = InnoDB;

-- One row for each name that was ever taken, until it is reaped. Whether a name may be taken is decided by its own row
-- alone: term is null, or expires_at has passed by the database's clock. Names are bytes: in a text column, also a "_bin"
-- one, blanks at the end would not count. InnoDB, whatever the server's default: other engines lock no rows.
CREATE TABLE rowlock_locks (
  name          VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- lease, unique_insert, row_lock: one name, one strategy
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
  note          VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''
) ENGINE = InnoDB;

-- The latest token of names whose lock row does not outlive the term.
CREATE TABLE rowlock_tokens (
  name  VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token BIGINT         NOT NULL
) ENGINE = InnoDB;

-- One row: what the reaper did last, for people.
CREATE TABLE rowlock_reaper (
  id          TINYINT NOT NULL PRIMARY KEY CHECK (id = 1),
  started_at  DATETIME(6),                    -- null: it never ran
  finished_at DATETIME(6),
  host        VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  pid         BIGINT,
  report      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  -- JSON
) ENGINE = InnoDB;
INSERT INTO rowlock_reaper (id) VALUES (1);

INSERT INTO rowlock_meta VALUES (1, replace(uuid(), '-', ''), 3, 1, 0);

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE rowlock_meta (
  id             INTEGER PRIMARY KEY CHECK (id = 1),
  database_id    TEXT    NOT NULL,            -- random; tells this set of tables from every other
  schema_version INTEGER NOT NULL,            -- the migration that was applied last, by whatever tool
  oldest_reader  INTEGER NOT NULL,            -- programs made for an older schema version must not use these tables
  token_floor    INTEGER NOT NULL             -- no token at or below it is drawn for a name without a row
) STRICT;
INSERT INTO rowlock_meta VALUES (1, lower(hex(randomblob(16))), 1, 1, 0);

-- What `rowlock migrate` did. Empty when another tool applied these files.
CREATE TABLE rowlock_migrations (
  version    INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL,
  checksum   TEXT    NOT NULL,
  applied_at INTEGER NOT NULL DEFAULT (cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
) STRICT;

-- Times are milliseconds since 1970, UTC.
CREATE TABLE rowlock_locks (
  name          TEXT    PRIMARY KEY NOT NULL CHECK (length(cast(name AS BLOB)) BETWEEN 1 AND 255),
  strategy      TEXT    NOT NULL,
  term          TEXT,                         -- null: free
  token         INTEGER NOT NULL,             -- of the latest term; 0: no term yet
  owner_host    TEXT,
  owner_pid     INTEGER,
  owner_process TEXT,
  owner_thread  INTEGER,
  renewals      INTEGER NOT NULL DEFAULT 0,
  ttl           INTEGER NOT NULL DEFAULT 0,   -- milliseconds
  takeover      TEXT    NOT NULL DEFAULT 'clock',
  acquired_at   INTEGER,
  expires_at    INTEGER NOT NULL,             -- of a free row: since when it is free
  hard_until    INTEGER,                      -- null, or the end that renewal can't pass
  revoked       INTEGER NOT NULL DEFAULT 0,
  note          TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

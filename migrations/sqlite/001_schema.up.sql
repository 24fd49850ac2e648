-- rowlock's tables for SQLite 3.38 and later: to read, or to apply where no migration tool is wanted
-- (`sqlite3 -bail FILE <001_schema.up.sql`). `rowlock migrate` recognizes tables that were made so. `rowlock migrate sql`
-- prints the same with another table prefix.
-- Times are milliseconds since 1970, UTC.

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE rowlock_meta (
  id             INTEGER PRIMARY KEY CHECK (id = 1),
  database_id    TEXT    NOT NULL,            -- random; tells this set of tables from every other
  schema_version INTEGER NOT NULL,            -- the migration that was applied last, by whatever tool
  oldest_reader  INTEGER NOT NULL,            -- programs made for an older schema version must not use these tables
  token_floor    INTEGER NOT NULL,            -- no token at or below it is drawn for a name without a row
  token_ceiling  INTEGER NOT NULL DEFAULT 0,  -- no token above it was drawn without a flush
  boot_floor     INTEGER NOT NULL DEFAULT 0,  -- the ceiling before the kernel's last boot: no token at or below it is drawn
  boot_id        TEXT    NOT NULL DEFAULT ''  -- of that boot
) STRICT;
INSERT INTO rowlock_meta (id, database_id, schema_version, oldest_reader, token_floor)
VALUES (1, lower(hex(randomblob(16))), 1, 1, 0);

-- What `rowlock migrate` did: for people, and to notice texts that differ. What is there is said by rowlock_meta.
CREATE TABLE rowlock_migrations (
  version    INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL,
  checksum   TEXT    NOT NULL,                -- of migrations/sqlite/NNN_name.up.sql
  applied_at INTEGER NOT NULL DEFAULT (cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
) STRICT;

-- One row for each name that was ever taken, until it is reaped. Whether a name may be taken is decided by its own row
-- alone: term is null, or expires_at has passed by the database's clock.
-- (No comma in the comment of the last column: SQLite looks for one in front of a column that came behind it when it drops that.)
CREATE TABLE rowlock_locks (
  name          TEXT    PRIMARY KEY NOT NULL CHECK (length(cast(name AS BLOB)) BETWEEN 1 AND 255),
  strategy      TEXT    NOT NULL,             -- lease, unique_insert, shared, semaphore: one name, one
  term          TEXT,                         -- random id of the present hold; null: free
  token         INTEGER NOT NULL,             -- fencing token of the latest term; 0: no term yet
  owner_host    TEXT,                         -- host and pid are for people,
  owner_pid     INTEGER,
  owner_process TEXT,                         -- process (a random id, or an explicit owner's text) and thread decide
  owner_thread  INTEGER,                      -- 0: explicit owner
  renewals      INTEGER NOT NULL DEFAULT 0,
  ttl           INTEGER NOT NULL DEFAULT 0,   -- milliseconds that a renewal is for
  takeover      TEXT    NOT NULL DEFAULT 'clock',  -- clock, observed
  acquired_at   INTEGER,
  expires_at    INTEGER NOT NULL,             -- of a free row: since when it is free
  hard_until    INTEGER,                      -- null, or the end that renewal can't pass
  revoked       INTEGER NOT NULL DEFAULT 0,   -- 1: an operator asked for it back
  note          TEXT    NOT NULL DEFAULT '',
  longest       INTEGER,                      -- milliseconds that this term can last at most from a change on, and
  longest_term  TEXT,                         -- whose, also when that is gone; another than term: plain SQL of others took the row
  permit_limit  INTEGER,                      -- strategy semaphore: the limit for all who name none
  intent_units  INTEGER,                      -- shared, semaphore: what the first in line waits for,
  intent_term   TEXT,                         -- under which id,
  intent_until  INTEGER                       -- and until when nobody else takes it
) STRICT, WITHOUT ROWID;

-- The latest token of names whose lock row does not outlive the term.
CREATE TABLE rowlock_tokens (
  name  TEXT    PRIMARY KEY NOT NULL CHECK (length(cast(name AS BLOB)) BETWEEN 1 AND 255),
  token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each permit that is held: locks that several may hold at a time (strategies shared and semaphore). Its columns are
-- those of rowlock_locks, and two of its own. The name's row in rowlock_locks is the anchor, whose row lock orders those who count.
CREATE TABLE rowlock_permits (
  name          TEXT    NOT NULL CHECK (length(cast(name AS BLOB)) BETWEEN 1 AND 255),
  strategy      TEXT    NOT NULL,
  term          TEXT    NOT NULL,
  token         INTEGER NOT NULL,
  owner_host    TEXT,
  owner_pid     INTEGER,
  owner_process TEXT,
  owner_thread  INTEGER,
  renewals      INTEGER NOT NULL DEFAULT 0,
  ttl           INTEGER NOT NULL DEFAULT 0,   -- milliseconds
  takeover      TEXT    NOT NULL DEFAULT 'clock',
  acquired_at   INTEGER,
  expires_at    INTEGER NOT NULL,
  hard_until    INTEGER,
  revoked       INTEGER NOT NULL DEFAULT 0,
  note          TEXT    NOT NULL DEFAULT '',
  longest       INTEGER,
  longest_term  TEXT,
  units         INTEGER NOT NULL CHECK (units > 0),
  told          INTEGER NOT NULL,             -- the limit that its taker was told
  PRIMARY KEY (name, term)
) STRICT, WITHOUT ROWID;

-- One row: what the reaper did last, for people.
CREATE TABLE rowlock_reaper (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  started_at  INTEGER,                        -- null: it never ran
  finished_at INTEGER,
  host        TEXT,
  pid         INTEGER,
  report      TEXT                            -- JSON
) STRICT;
INSERT INTO rowlock_reaper (id) VALUES (1);

-- Version 4 is functions for SQL without C++, which SQLite can't store: nothing more here.

-- Locks that several databases grant by majority (strategy quorum): lib/doc/quorum.md. One row: of which quorum this database is a
-- member, in which epoch, and whether it votes. Without a quorum it has no ids.
CREATE TABLE rowlock_quorum (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  quorum_id TEXT,
  epoch     INTEGER NOT NULL DEFAULT 0,
  epoch_id  TEXT,
  members   TEXT    NOT NULL DEFAULT '',
  max_ttl   INTEGER NOT NULL DEFAULT 0,
  votes     INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO rowlock_quorum (id) VALUES (1);

-- For transaction::admit(): the highest token of such a lock that was admitted here.
CREATE TABLE rowlock_admitted (
  name  TEXT    PRIMARY KEY NOT NULL CHECK (length(cast(name AS BLOB)) BETWEEN 1 AND 255),
  token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

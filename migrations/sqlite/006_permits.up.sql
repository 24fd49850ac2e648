-- Locks that several may hold at a time (strategies shared and semaphore): lib/doc/permits.md. One row for each permit that is
-- held, with the columns of rowlock_locks, and two of its own. The primary key finds all permits of a name.
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

-- Of the anchor, the name's row in rowlock_locks: the limit for all who name none, and what the head of the line waits for.
ALTER TABLE rowlock_locks ADD COLUMN permit_limit INTEGER;
ALTER TABLE rowlock_locks ADD COLUMN intent_units INTEGER;
ALTER TABLE rowlock_locks ADD COLUMN intent_term TEXT;
ALTER TABLE rowlock_locks ADD COLUMN intent_until INTEGER;
UPDATE rowlock_meta SET schema_version = 6;

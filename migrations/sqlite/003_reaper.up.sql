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
UPDATE rowlock_meta SET schema_version = 3;

-- One row: what the reaper did last, for people.
CREATE TABLE rowlock_reaper (
  id          integer     PRIMARY KEY CHECK (id = 1),
  started_at  timestamptz,                    -- null: it never ran
  finished_at timestamptz,
  host        text,
  pid         bigint,
  report      text                            -- JSON
);
INSERT INTO rowlock_reaper (id) VALUES (1);
UPDATE rowlock_meta SET schema_version = 3;

-- One row: what the reaper did last, for people. May be run again, as 001.
CREATE TABLE IF NOT EXISTS rowlock_reaper (
  id          TINYINT NOT NULL PRIMARY KEY CHECK (id = 1),
  started_at  DATETIME(6),                    -- null: it never ran
  finished_at DATETIME(6),
  host        VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  pid         BIGINT,
  report      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  -- JSON
) ENGINE = InnoDB;
INSERT INTO rowlock_reaper (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 1;
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 3);

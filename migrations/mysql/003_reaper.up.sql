-- One row: what the reaper did last, for people. DDL ends a transaction: each statement can be run again, and the version
-- comes last.
CREATE TABLE IF NOT EXISTS rowlock_reaper (
  id          INT PRIMARY KEY CHECK (id = 1),
  started_at  DATETIME(6) NULL,               -- null: it never ran
  finished_at DATETIME(6) NULL,
  host        VARCHAR(255) CHARACTER SET utf8mb4 NULL,
  pid         BIGINT NULL,
  report      TEXT CHARACTER SET utf8mb4 NULL -- JSON
) ENGINE = InnoDB;
INSERT IGNORE INTO rowlock_reaper (id) VALUES (1);
UPDATE rowlock_meta SET schema_version = 3;

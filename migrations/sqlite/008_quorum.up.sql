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
UPDATE rowlock_meta SET schema_version = 8;

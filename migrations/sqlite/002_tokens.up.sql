-- The latest token of names whose lock row does not outlive the term.
CREATE TABLE rowlock_tokens (
  name  TEXT    PRIMARY KEY NOT NULL CHECK (length(cast(name AS BLOB)) BETWEEN 1 AND 255),
  token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
UPDATE rowlock_meta SET schema_version = 2;

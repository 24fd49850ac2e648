-- The latest token of names whose lock row does not outlive the term.
CREATE TABLE rowlock_tokens (
  name  text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token bigint NOT NULL
) WITH (fillfactor = 50);
UPDATE rowlock_meta SET schema_version = 2;

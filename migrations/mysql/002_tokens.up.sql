-- The latest token of names whose lock row does not outlive the term. May be run again, as 001.
CREATE TABLE IF NOT EXISTS rowlock_tokens (
  name  VARBINARY(255) NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token BIGINT         NOT NULL
) ENGINE = InnoDB;
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 2);

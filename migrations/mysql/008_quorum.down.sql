-- The version first, as in 004_functions.down.sql. The member forgets its quorum: it has to be joined again before it votes. What was
-- admitted is forgotten, too.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_permits WRITE,
  rowlock_quorum WRITE, rowlock_admitted WRITE;
UPDATE rowlock_meta SET schema_version = 7;
DROP TABLE rowlock_admitted;
DROP TABLE rowlock_quorum;
UNLOCK TABLES;
DROP PROCEDURE IF EXISTS rowlock_admit;

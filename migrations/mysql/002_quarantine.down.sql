-- No process takes a lock from here on, or adds a record, until the version is the former one.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_permits WRITE, rowlock_pulse WRITE, rowlock_quarantine WRITE;
UPDATE rowlock_meta SET schema_version = 1, oldest_reader = 1;
DROP TABLE rowlock_pulse;
DROP TABLE rowlock_quarantine;
UNLOCK TABLES;
DROP PROCEDURE IF EXISTS rowlock_granting;
CREATE PROCEDURE rowlock_granting(IN in_ttl_ms BIGINT, OUT out_base BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  SET out_base = 0;
END;
DROP PROCEDURE IF EXISTS rowlock_begun;
CREATE PROCEDURE rowlock_begun(OUT out_begun DATETIME(6))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  SET out_begun = '1970-01-01';
END;

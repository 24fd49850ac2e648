-- The version first: without all of its procedures there is no version 4, and `up` makes them again. Whoever dies before the
-- last DROP, and does not go up again, leaves procedures that refer to tables which may be gone: they fail.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE;
UPDATE rowlock_meta SET schema_version = 3;
UNLOCK TABLES;
DROP PROCEDURE IF EXISTS rowlock_try_acquire;
DROP PROCEDURE IF EXISTS rowlock_renew;
DROP PROCEDURE IF EXISTS rowlock_release;
DROP PROCEDURE IF EXISTS rowlock_require;

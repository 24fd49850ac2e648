-- The version first, as in 004_functions.down.sql. What SQL without C++ holds stays held; it ends by its expiry.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_permits WRITE;
UPDATE rowlock_meta SET schema_version = 6;
UNLOCK TABLES;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_shared;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_exclusive;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_permit;
DROP PROCEDURE IF EXISTS rowlock_take_permit;
DROP PROCEDURE IF EXISTS rowlock_renew_permit;
DROP PROCEDURE IF EXISTS rowlock_release_permit;
DROP PROCEDURE IF EXISTS rowlock_require_permit;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_once;
DROP PROCEDURE IF EXISTS rowlock_done;
DROP PROCEDURE IF EXISTS rowlock_release_once;

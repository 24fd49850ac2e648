-- Nobody takes a lock from here on. In these databases each DROP commits: first of all there is no version any more, and `up` makes
-- all again. Whoever dies before the last DROP, and does not go up again, leaves procedures that refer to tables which are
-- gone: they fail.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_tokens WRITE, rowlock_reaper WRITE,
  rowlock_permits WRITE, rowlock_quorum WRITE, rowlock_admitted WRITE;
UPDATE rowlock_meta SET schema_version = 0;
DROP TABLE rowlock_admitted;
DROP TABLE rowlock_quorum;
DROP TABLE rowlock_permits;
DROP TABLE rowlock_reaper;
DROP TABLE rowlock_tokens;
DROP TABLE rowlock_locks;
DROP TABLE rowlock_migrations;
DROP TABLE rowlock_meta;
UNLOCK TABLES;
DROP PROCEDURE IF EXISTS rowlock_granting;
DROP PROCEDURE IF EXISTS rowlock_begun;
DROP PROCEDURE IF EXISTS rowlock_try_acquire;
DROP PROCEDURE IF EXISTS rowlock_renew;
DROP PROCEDURE IF EXISTS rowlock_release;
DROP PROCEDURE IF EXISTS rowlock_require;
DROP PROCEDURE IF EXISTS rowlock_take_permit;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_shared;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_exclusive;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_permit;
DROP PROCEDURE IF EXISTS rowlock_renew_permit;
DROP PROCEDURE IF EXISTS rowlock_release_permit;
DROP PROCEDURE IF EXISTS rowlock_require_permit;
DROP PROCEDURE IF EXISTS rowlock_try_acquire_once;
DROP PROCEDURE IF EXISTS rowlock_done;
DROP PROCEDURE IF EXISTS rowlock_release_once;
DROP PROCEDURE IF EXISTS rowlock_admit;

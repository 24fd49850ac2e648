-- Two roles with the least that they need, for MySQL 8.0 and MariaDB 10.6 and later: one that only locks (all
-- strategies, all of `rowlock run`, `list` and `release`), one that only reaps (`rowlock reap`,
-- `list --reaper`). Run it in the tables' database, as somebody who may make roles, after `rowlock migrate up`:
--   mysql DATABASE <mysql-grants.sql
-- For a role or account that is there already, and for another prefix: `rowlock grants --role ROLE` prints these lines.
-- Then grant the roles to the accounts that log in:
--   CREATE USER reaper@'%' IDENTIFIED BY '...'; GRANT rowlock_reaping TO reaper@'%';
--   MySQL: SET DEFAULT ROLE rowlock_reaping TO reaper@'%';   MariaDB: SET DEFAULT ROLE rowlock_reaping FOR reaper@'%';
CREATE ROLE rowlock_locking;
CREATE ROLE rowlock_reaping;

-- A role that locks reads the tables' version and the token floor, and can change neither.
GRANT SELECT ON rowlock_meta TO rowlock_locking;
-- DELETE: unique_insert gives a lock back by DELETE.
GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock_locks TO rowlock_locking;
GRANT SELECT, INSERT, UPDATE ON rowlock_tokens TO rowlock_locking;
-- Since when the database grants locks: lib/doc/quarantine.md
GRANT SELECT, INSERT, DELETE ON rowlock_pulse TO rowlock_locking;
-- `rowlock freeze`, `thaw` and `quarantine` need more: UPDATE on this one, and UPDATE and DELETE on rowlock_pulse, and PROCESS. Let
-- the tables' owner run them.
GRANT SELECT ON rowlock_quarantine TO rowlock_locking;
-- Of shared_mutex and semaphore; `list` reads it too. Tables of version 5 had none: give this after `rowlock migrate up`.
GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock_permits TO rowlock_locking;
-- Only members of a quorum need the first of these, and only transaction::admit() and rowlock_admit() the second (version 8). `rowlock
-- quorum init`, `join` and `drop` need more: UPDATE and INSERT on rowlock_quorum, UPDATE (token_floor) on rowlock_meta. Let the tables'
-- owner run them.
--   GRANT SELECT ON rowlock_quorum TO rowlock_locking;
--   GRANT SELECT, INSERT, UPDATE ON rowlock_admitted TO rowlock_locking;
-- Only `list --reaper` and `list --metrics` need this.
GRANT SELECT ON rowlock_reaper TO rowlock_locking;
-- Only SQL without C++ needs these: the procedures of version 4. They run with the caller's rights, so their callers
-- need these and the rights above (but none on rowlock_reaper, and no DELETE).
GRANT EXECUTE ON PROCEDURE rowlock_granting TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_begun TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_try_acquire TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_renew TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_release TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_require TO rowlock_locking;
-- And those of version 7: permits, which need all of the rights above on rowlock_permits, and "once". The takes of permits call
-- rowlock_take_permit.
GRANT EXECUTE ON PROCEDURE rowlock_take_permit TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_try_acquire_shared TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_try_acquire_exclusive TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_try_acquire_permit TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_renew_permit TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_release_permit TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_require_permit TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_try_acquire_once TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_done TO rowlock_locking;
GRANT EXECUTE ON PROCEDURE rowlock_release_once TO rowlock_locking;
-- (And, for rowlock_admit: GRANT EXECUTE ON PROCEDURE rowlock_admit TO rowlock_locking;)

GRANT SELECT, UPDATE (token_floor) ON rowlock_meta TO rowlock_reaping;
-- INSERT and UPDATE: for its own lease, "rowlock.reaper".
GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock_locks TO rowlock_reaping;
-- For its own lease.
GRANT SELECT, INSERT, DELETE ON rowlock_pulse TO rowlock_reaping;
GRANT SELECT ON rowlock_quarantine TO rowlock_reaping;
GRANT SELECT, DELETE ON rowlock_tokens TO rowlock_reaping;
GRANT SELECT, DELETE ON rowlock_permits TO rowlock_reaping;
GRANT SELECT, UPDATE ON rowlock_reaper TO rowlock_reaping;

-- Two roles with the least that they need, for PostgreSQL: one that only locks (all
-- strategies, all of `rowlock run`, `list` and `release`), one that only reaps (`rowlock reap`, `list --reaper`). Run it as
-- the tables' owner, who may make roles, after `rowlock migrate up`:
--   psql -1 -v ON_ERROR_STOP=1 -f postgresql-grants.sql
-- With the tables in a schema of their own: put it into the search path (PGOPTIONS='-c search_path=locks') and
--   GRANT USAGE ON SCHEMA locks TO rowlock_locking, rowlock_reaping;
-- For a role that is there already, and for another prefix: `rowlock grants --role ROLE` prints these lines.
-- Then grant the roles to the roles that log in: CREATE ROLE reaper LOGIN; GRANT rowlock_reaping TO reaper;
CREATE ROLE rowlock_locking NOLOGIN;
CREATE ROLE rowlock_reaping NOLOGIN;

-- A role that locks reads the tables' version and the token floor, and can change neither.
GRANT SELECT ON rowlock_meta TO rowlock_locking;
-- DELETE: unique_insert gives a lock back by DELETE.
GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock_locks TO rowlock_locking;
GRANT SELECT, INSERT, UPDATE ON rowlock_tokens TO rowlock_locking;
-- Since when the database grants locks: lib/doc/quarantine.md. Rows are only added.
GRANT SELECT, INSERT, DELETE ON rowlock_reach TO rowlock_locking;
GRANT SELECT, INSERT, DELETE ON rowlock_pulse TO rowlock_locking;
-- `rowlock freeze`, `thaw` and `quarantine` need more: UPDATE on this one, and UPDATE and DELETE on rowlock_pulse. Let
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
-- The functions (rowlock_enter_queue, and those for SQL without C++) need no grant: PostgreSQL lets everybody execute functions, and these run
-- with the caller's rights, so that they do nothing for a role without the rights above (they need no DELETE on rowlock_locks, and
-- nothing on rowlock_reaper). A role that may only renew, guard and give back needs SELECT, UPDATE on rowlock_locks; of permits
-- SELECT, UPDATE, DELETE on rowlock_permits.

GRANT SELECT, UPDATE (token_floor) ON rowlock_meta TO rowlock_reaping;
-- INSERT and UPDATE: for its own lease, "rowlock.reaper", and FOR UPDATE wants UPDATE.
GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock_locks TO rowlock_reaping;
-- For its own lease.
GRANT SELECT, INSERT, DELETE ON rowlock_reach TO rowlock_reaping;
GRANT SELECT, INSERT, DELETE ON rowlock_pulse TO rowlock_reaping;
GRANT SELECT ON rowlock_quarantine TO rowlock_reaping;
-- FOR UPDATE wants UPDATE of one column, whichever. With this one, no token can be lowered.
GRANT SELECT, DELETE, UPDATE (name) ON rowlock_tokens TO rowlock_reaping;
-- FOR UPDATE wants UPDATE of one column, whichever.
GRANT SELECT, DELETE, UPDATE (name) ON rowlock_permits TO rowlock_reaping;
GRANT SELECT, UPDATE ON rowlock_reaper TO rowlock_reaping;

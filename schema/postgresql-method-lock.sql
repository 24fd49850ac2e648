-- For moving from a hand-made lock table, as many articles recommend it, to rowlock, while old and new programs run:
--
--   CREATE TABLE methodLock (id ..., method_name varchar(64) NOT NULL UNIQUE, "desc" ..., update_time ...);
--   old programs: INSERT INTO methodLock (method_name, ...) takes, a duplicate-key error means busy, DELETE gives back
--
-- Apply this file once, before the first new program uses one of these names (rowlock's tables must be there; change
-- the names in it if yours differ): from then on each row of methodLock has its counterpart in rowlock_locks, made
-- and deleted in the same transaction. Old programs stay as they are, and get the same error as ever (23505) while a
-- new one holds the name. New programs use the same names with strategy unique_insert (`rowlock run --strategy
-- unique_insert NAME ...`); with lease they would keep the old ones out for ever. `rowlock list` shows what old
-- programs hold, with the owner methodLock and an expiry a hundred years ahead: they have none, so the lock of one
-- that died is freed as before, by DELETE FROM methodLock WHERE method_name = ...
--
-- Apply it as the owner of both tables, not as a superuser: the triggers run with the rights of who applied it. It may
-- be applied again, for instance over an older form of it.
--
-- When the last old program is gone: DROP TRIGGER rowlock_take ON methodLock; DROP TRIGGER rowlock_give_back ON
-- methodLock; DROP FUNCTION method_lock_take, method_lock_give_back; DROP TABLE methodLock.

BEGIN;

-- Nobody takes or gives back in the old table until COMMIT; reading goes on.
LOCK TABLE methodLock IN SHARE ROW EXCLUSIVE MODE;

-- SECURITY DEFINER: the old programs' role needs no right on rowlock's tables. So nothing in these functions may be found
-- where somebody else can put it:
-- * The search path is pg_catalog. pg_temp is last on it, because it is first where it is not named: a role that may only
--   INSERT into methodLock could make a TEMP TABLE rowlock_locks with a trigger, and that trigger would run with our rights.
-- * The table is named with its schema, which is found here, when the functions are made: hence format().
-- * method_name is read as text: operators and casts of a type of its own are none of ours.
-- * Nobody else may put these functions on a table of his own.
DO $do$
DECLARE
  locks CONSTANT text := (
    SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) 'rowlock_locks'::pg_catalog.regclass);
BEGIN
  -- Whoever waits in the INSERT (for a taker that has not committed yet) finds the row afterwards, and fails as on a
  -- duplicate in methodLock itself. What has expired may be taken, as rowlock itself does it; looked at again by whoever
  -- had to wait for the row.
  EXECUTE pg_catalog.format($make$
    CREATE OR REPLACE FUNCTION method_lock_take() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
    BEGIN
      DELETE FROM %1$s
      WHERE name = NEW.method_name::text AND strategy = 'unique_insert'
        AND (term IS NULL OR (takeover = 'clock' AND expires_at <= clock_timestamp()));
      INSERT INTO %1$s (name, strategy, term, token, owner_host, owner_process, ttl, acquired_at, expires_at, note)
      VALUES (NEW.method_name::text, 'unique_insert', replace(gen_random_uuid()::text, '-', ''), 0, 'methodLock',
        'methodLock', 3155760000000, clock_timestamp(), clock_timestamp() + interval '36525 days',
        'by a row in methodLock');
      RETURN NEW;
    END $body$ $make$, locks);
  EXECUTE pg_catalog.format($make$
    CREATE OR REPLACE FUNCTION method_lock_give_back() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
    BEGIN
      DELETE FROM %1$s WHERE name = OLD.method_name::text AND owner_process = 'methodLock';
      RETURN NULL;
    END $body$ $make$, locks);
  -- CREATE OR REPLACE leaves a function its owner, who could replace it again: only a superuser gets as far as here with
  -- somebody else's.
  IF EXISTS (
    SELECT FROM pg_catalog.pg_proc AS p
    WHERE p.oid OPERATOR(pg_catalog.=) ANY (
        ARRAY['method_lock_take()'::pg_catalog.regprocedure::pg_catalog.oid, 'method_lock_give_back()'::pg_catalog.regprocedure::pg_catalog.oid])
      AND pg_catalog.pg_get_userbyid(p.proowner) OPERATOR(pg_catalog.<>) current_user)
  THEN
    RAISE EXCEPTION 'method_lock_take() or method_lock_give_back() is there already and somebody else''s'
      USING ERRCODE = 'insufficient_privilege', HINT = 'Drop it if nobody needs it.';
  END IF;
END $do$;

REVOKE ALL ON FUNCTION method_lock_take(), method_lock_give_back() FROM PUBLIC;

DROP TRIGGER IF EXISTS rowlock_take ON methodLock;
DROP TRIGGER IF EXISTS rowlock_give_back ON methodLock;
CREATE TRIGGER rowlock_take BEFORE INSERT ON methodLock FOR EACH ROW EXECUTE FUNCTION method_lock_take();
CREATE TRIGGER rowlock_give_back AFTER DELETE ON methodLock FOR EACH ROW EXECUTE FUNCTION method_lock_give_back();

-- What is held now and has no counterpart yet. Fails, and changes nothing, if a new program holds one of these names.
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_process, ttl, acquired_at, expires_at, note)
SELECT m.method_name, 'unique_insert', replace(gen_random_uuid()::text, '-', ''), 0, 'methodLock', 'methodLock',
  3155760000000, clock_timestamp(), clock_timestamp() + interval '36525 days', 'by a row in methodLock'
FROM methodLock AS m
WHERE NOT EXISTS (
  SELECT FROM rowlock_locks AS l WHERE l.name = m.method_name::text AND l.owner_process = 'methodLock');

COMMIT;

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
-- When the last old program is gone: DROP TRIGGER rowlock_take ON methodLock; DROP TRIGGER rowlock_give_back ON
-- methodLock; DROP FUNCTION method_lock_take, method_lock_give_back; DROP TABLE methodLock.

BEGIN;

-- SECURITY DEFINER: the old programs' role needs no right on rowlock's tables. Whoever waits in the INSERT (for a taker
-- that has not committed yet) finds the row afterwards, and fails as on a duplicate in methodLock itself.
CREATE FUNCTION method_lock_take() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  -- What has expired may be taken, as rowlock itself does it; looked at again by whoever had to wait for the row.
  DELETE FROM rowlock_locks
  WHERE name = NEW.method_name AND strategy = 'unique_insert'
    AND (term IS NULL OR (takeover = 'clock' AND expires_at <= clock_timestamp()));
  INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_process, ttl, acquired_at, expires_at, note)
  VALUES (NEW.method_name, 'unique_insert', replace(gen_random_uuid()::text, '-', ''), 0, 'methodLock', 'methodLock',
    3155760000000, clock_timestamp(), clock_timestamp() + interval '36525 days', 'by a row in methodLock');
  RETURN NEW;
END $$;

CREATE FUNCTION method_lock_give_back() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  DELETE FROM rowlock_locks WHERE name = OLD.method_name AND owner_process = 'methodLock';
  RETURN NULL;
END $$;

-- Nobody takes or gives back in the old table until COMMIT; reading goes on.
LOCK TABLE methodLock IN SHARE ROW EXCLUSIVE MODE;

CREATE TRIGGER rowlock_take BEFORE INSERT ON methodLock FOR EACH ROW EXECUTE FUNCTION method_lock_take();
CREATE TRIGGER rowlock_give_back AFTER DELETE ON methodLock FOR EACH ROW EXECUTE FUNCTION method_lock_give_back();

-- What is held now. Fails, and changes nothing, if a new program holds one of these names already.
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_process, ttl, acquired_at, expires_at, note)
SELECT method_name, 'unique_insert', replace(gen_random_uuid()::text, '-', ''), 0, 'methodLock', 'methodLock',
  3155760000000, clock_timestamp(), clock_timestamp() + interval '36525 days', 'by a row in methodLock'
FROM methodLock;

COMMIT;

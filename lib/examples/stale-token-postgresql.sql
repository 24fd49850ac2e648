-- A row keeps the fencing token of whoever wrote it last, and refuses an older one: a holder that lost its lock and does not
-- know it yet can't overwrite what the next one wrote. Each UPDATE has to say its token.
CREATE TABLE account (
  id         integer PRIMARY KEY,
  balance    numeric NOT NULL,
  lock_token bigint  NOT NULL DEFAULT 0
);

CREATE FUNCTION refuse_stale_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.lock_token < OLD.lock_token THEN
    RAISE EXCEPTION 'token % is stale: % has written already', NEW.lock_token, OLD.lock_token USING ERRCODE = 'RL003';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER refuse_stale_token BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION refuse_stale_token();

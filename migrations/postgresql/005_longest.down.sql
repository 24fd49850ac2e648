-- The function of version 4, which knows the columns of version 4. The other three never knew the ones that go.
CREATE OR REPLACE FUNCTION rowlock_try_acquire(name text, ttl interval, note text DEFAULT '')
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql ROWS 1 SET lock_timeout = '1s' AS $$
#variable_conflict use_column
DECLARE
  wanted CONSTANT text := $1;
  duration CONSTANT interval := $2;
  remark CONSTANT text := coalesce($3, '');
  other text;
  takeable boolean;
BEGIN
  IF wanted IS NULL OR octet_length(wanted) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'a lock''s name must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF duration IS NULL OR duration < interval '100 milliseconds' OR duration > interval '366 days' THEN
    RAISE EXCEPTION 'a ttl of % is out of range: 100 ms to 366 days', duration USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF octet_length(remark) > 1024 THEN
    RAISE EXCEPTION 'the note is longer than 1024 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'a lock can''t be taken at isolation level %', current_setting('transaction_isolation')
      USING ERRCODE = 'feature_not_supported',
            HINT = 'The section would read what was there before the lock. Take it in a transaction at READ COMMITTED.';
  END IF;
  -- A second round for a row that was absent, a third for one that was reaped just after it was put there.
  FOR round IN 1..3 LOOP
    SELECT l.strategy, l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())
    INTO other, takeable
    FROM rowlock_locks AS l WHERE l.name = wanted;
    IF NOT FOUND THEN
      BEGIN
        INSERT INTO rowlock_locks (name, strategy, token, expires_at)
        VALUES (wanted, 'lease', 0, clock_timestamp())
        ON CONFLICT DO NOTHING;
      EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        RETURN;  -- a transaction has put the row there, and is still open
      END;
      CONTINUE;
    END IF;
    IF other <> 'lease' THEN
      RAISE EXCEPTION 'the lock ''%'' is used with strategy %, not lease', wanted, other USING ERRCODE = 'RL002';
    END IF;
    IF NOT takeable THEN
      RETURN;
    END IF;
    BEGIN
      PERFORM FROM rowlock_locks AS l
      WHERE l.name = wanted AND l.strategy = 'lease'
        AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
      FOR UPDATE SKIP LOCKED;
      IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that somebody else has taken meanwhile';
      END IF;
      RETURN QUERY UPDATE rowlock_locks AS l SET
        term = replace(gen_random_uuid()::text, '-', ''),
        token = greatest(
          l.token + 1,
          (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
          CASE WHEN l.token = 0 THEN (
            SELECT 1 + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = wanted))
            FROM rowlock_meta AS m WHERE m.id = 1) END),
        owner_host = coalesce(host(inet_client_addr()), 'local'),
        owner_pid = pg_backend_pid(),
        owner_process = replace(gen_random_uuid()::text, '-', ''),
        owner_thread = -1,
        renewals = 0,
        ttl = (extract(epoch FROM duration) * 1000)::bigint,
        takeover = 'clock',
        acquired_at = clock_timestamp(),
        expires_at = clock_timestamp() + duration,
        hard_until = NULL,
        revoked = false,
        note = remark
      WHERE l.name = wanted AND l.strategy = 'lease'
        AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
      RETURNING l.term, l.token;
      IF FOUND THEN
        RETURN;
      END IF;
      RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that can''t be taken any more';
    EXCEPTION WHEN SQLSTATE 'RL000' THEN
      NULL;
    END;
  END LOOP;
END $$;

-- What the functions name is the server's own or, with its schema, rowlock's, whatever search path the caller has: an operator,
-- function or type that somebody has put beside the tables is never met, nor a temporary table (pg_temp would come first
-- if it were not named). The tables' schema is put into their text. [C12]
DO $$
DECLARE
  place CONSTANT text := (
    SELECT pg_catalog.quote_ident(n.nspname)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) 'rowlock_locks'::pg_catalog.regclass);
  one pg_catalog.regprocedure;
  body text;
  qualified text;
BEGIN
  FOREACH one IN ARRAY ARRAY['rowlock_try_acquire(text, interval, text)']::pg_catalog.regprocedure[]
  LOOP
    EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', one);
    body := (SELECT p.prosrc FROM pg_catalog.pg_proc AS p WHERE p.oid OPERATOR(pg_catalog.=) one);
    qualified := body;
    IF pg_catalog.strpos('rowlock_locks', '.') OPERATOR(pg_catalog.=) 0 THEN  -- else the migrator has put it in
      qualified := pg_catalog.regexp_replace(body, 'rowlock_locks|rowlock_tokens|rowlock_meta',
        pg_catalog.concat(pg_catalog.replace(place, '\', '\\'), '.\&'), 'g');
    END IF;
    EXECUTE pg_catalog.replace(pg_catalog.pg_get_functiondef(one), body, qualified);
  END LOOP;
END $$;
DROP FUNCTION rowlock_take_seen(text, interval, text, xid, bigint);
UPDATE rowlock_meta SET schema_version = 4;
ALTER TABLE rowlock_locks DROP COLUMN longest, DROP COLUMN longest_term;

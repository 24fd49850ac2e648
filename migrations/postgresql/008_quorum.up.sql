-- Locks that several databases grant by majority (strategy quorum): lib/doc/quorum.md. One row: of which quorum this database is a
-- member, in which epoch, and whether it votes. Without a quorum it has no ids.
CREATE TABLE rowlock_quorum (
  id        integer PRIMARY KEY CHECK (id = 1),
  quorum_id text,
  epoch     bigint  NOT NULL DEFAULT 0,
  epoch_id  text,
  members   text    NOT NULL DEFAULT '',
  max_ttl   bigint  NOT NULL DEFAULT 0,       -- milliseconds
  votes     boolean NOT NULL DEFAULT false
);
INSERT INTO rowlock_quorum (id) VALUES (1);

-- For transaction::admit() and rowlock_admit(): the highest token of such a lock that was admitted here.
CREATE TABLE rowlock_admitted (
  name  text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token bigint NOT NULL
) WITH (fillfactor = 50);

-- For SQL without C++: in the transaction that is to be kept from a holder that has lost such a lock. Raises the highest token that was
-- admitted, or fails with RL001 if it is higher already, and the transaction with it. Two at once: the second waits for the
-- first one's end, and decides by what it has left; above READ COMMITTED that is error 40001.
CREATE FUNCTION rowlock_admit(name text, token bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  known bigint;
BEGIN
  IF $1 IS NULL OR octet_length($1) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'a lock''s name must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF $2 IS NULL OR $2 <= 0 THEN
    RAISE EXCEPTION 'a token of % is none', $2 USING ERRCODE = 'invalid_parameter_value';
  END IF;
  INSERT INTO rowlock_admitted AS a (name, token) VALUES ($1, $2)
  ON CONFLICT (name) DO UPDATE SET token = greatest(a.token, excluded.token)
  RETURNING a.token INTO known;
  IF known > $2 THEN
    RAISE EXCEPTION 'the lock ''%'' is lost: token % was here, and is higher than %', $1, known, $2
      USING ERRCODE = 'RL001', HINT = 'A later holder has written. Roll back.';
  END IF;
END $$;

-- As in 004_functions.up.sql: what the function names is the server's own or, with its schema, rowlock's. [C12]
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
  FOREACH one IN ARRAY ARRAY['rowlock_admit(text, bigint)']::pg_catalog.regprocedure[]
  LOOP
    EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', one);
    body := (SELECT p.prosrc FROM pg_catalog.pg_proc AS p WHERE p.oid OPERATOR(pg_catalog.=) one);
    qualified := body;
    IF pg_catalog.strpos('rowlock_locks', '.') OPERATOR(pg_catalog.=) 0 THEN  -- else the migrator has put it in
      qualified := pg_catalog.regexp_replace(body, 'rowlock_admitted',
        pg_catalog.concat(pg_catalog.replace(place, '\', '\\'), '.\&'), 'g');
    END IF;
    EXECUTE pg_catalog.replace(pg_catalog.pg_get_functiondef(one), body, qualified);
  END LOOP;
END $$;
UPDATE rowlock_meta SET schema_version = 8;

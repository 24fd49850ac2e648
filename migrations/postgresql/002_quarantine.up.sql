-- Since when this database grants locks, after it may have forgotten some: a failover to a standby that lagged, a crash with
-- commits that were not flushed. lib/doc/quarantine.md

-- The longest ttl that is granted until then, in milliseconds, up to five minutes: flushed before the first grant that needs it.
-- Rows are added, and deleted when they are of no use any more. (A lease above five minutes is flushed itself.)
CREATE TABLE rowlock_reach (
  ttl   bigint      NOT NULL CHECK (ttl BETWEEN 0 AND 300000),
  until timestamptz NOT NULL,
  base  bigint      NOT NULL                -- of an incarnation that began, or 0
);
INSERT INTO rowlock_reach (ttl, until, base)
SELECT least(max(l.ttl), 300000), clock_timestamp() + interval '1 hour', 0
FROM (SELECT ttl FROM rowlock_locks WHERE owner_process IS NOT NULL UNION ALL SELECT ttl FROM rowlock_permits) AS l HAVING max(l.ttl) > 0;

-- Pulses: what this incarnation of the database grants, and since when. Unlogged: a crash and a promotion leave it empty, and a
-- clean restart leaves it as it was. No unique key: a session that finds none adds one, and waits for no open transaction. Only
-- rows count that were made here: a dump that was loaded has another xmin than made_by, a copy of the database has another path.
CREATE UNLOGGED TABLE rowlock_pulse (
  safe_from timestamptz NOT NULL,           -- nothing is granted before
  reach     bigint      NOT NULL,           -- milliseconds: leases up to this ttl are granted from then on,
  until     timestamptz NOT NULL,           -- until then
  begun     timestamptz NOT NULL,           -- of the incarnation
  base      bigint      NOT NULL,           -- all tokens that this incarnation draws are above; names it, too
  made_by   xid         NOT NULL DEFAULT pg_current_xact_id()::xid,
  made_at   text        NOT NULL DEFAULT pg_relation_filepath('rowlock_pulse'::regclass)
);
-- Nothing was forgotten so far.
INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base)
SELECT clock_timestamp(), coalesce(max(r.ttl), 0), coalesce(max(r.until), clock_timestamp()), '-infinity', 0 FROM rowlock_reach AS r;

-- What an operator has set: whether this database pauses after it may have forgotten locks, and until when it grants nothing. Read
-- where a pulse is begun, and not by takes: a freeze moves safe_from.
CREATE TABLE rowlock_quarantine (
  id           integer PRIMARY KEY CHECK (id = 1),
  enabled      boolean NOT NULL,
  frozen_until timestamptz
);
INSERT INTO rowlock_quarantine (id, enabled) VALUES (1, true);

UPDATE rowlock_meta SET schema_version = 2, oldest_reader = 2 WHERE id = 1;

-- As the library has it (lib/sql/postgresql/pulse.sql), in the caller's transaction: so what it writes is there with the caller's
-- COMMIT. It may be called in a subtransaction, whose number is the rows' xmin: a row of rowlock_reach tells that.
CREATE OR REPLACE FUNCTION rowlock_granting(ttl bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  wanted CONSTANT bigint := least($1, 300000);
  an_hour CONSTANT timestamptz := clock_timestamp() + interval '1 hour';
  absurd CONSTANT bigint := (extract(epoch FROM clock_timestamp() + interval '10 years') * 1000000)::bigint;
  granted bigint;
  longest bigint;
  highest bigint;
  from_then timestamptz;
  since timestamptz;
  mine xid;
BEGIN
  FOR round IN 1..3 LOOP
    SELECT q.base INTO granted FROM rowlock_pulse AS q
    WHERE q.made_by = q.xmin AND q.made_at = pg_relation_filepath(q.tableoid) AND q.safe_from <= clock_timestamp()
      AND q.until > clock_timestamp() AND q.reach >= wanted LIMIT 1;
    IF FOUND OR round = 3 THEN
      RETURN granted;
    END IF;
    PERFORM FROM rowlock_quarantine AS z WHERE z.frozen_until > clock_timestamp();
    IF FOUND THEN
      RETURN NULL;
    END IF;
    PERFORM set_config('synchronous_commit',
      CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true);
    SELECT q.safe_from, q.begun, q.base INTO from_then, since, highest FROM rowlock_pulse AS q
    WHERE q.made_by = q.xmin AND q.made_at = pg_relation_filepath(q.tableoid)
      AND q.safe_from <= clock_timestamp() + interval '301 seconds'
    ORDER BY q.safe_from, q.base LIMIT 1;
    IF NOT FOUND THEN  -- a new incarnation
      longest := least(300000, greatest(
        (SELECT max(r.ttl) FROM rowlock_reach AS r WHERE r.until > clock_timestamp() - interval '1 day'),
        (SELECT max(l.ttl) FROM rowlock_locks AS l WHERE l.term <> 'name' AND l.owner_process IS NOT NULL),
        (SELECT max(p.ttl) FROM rowlock_permits AS p), 0));
      highest := 3600000000 + greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        (SELECT max(r.base) FROM rowlock_reach AS r),
        (SELECT max(l.token) FROM rowlock_locks AS l WHERE l.token < absurd),
        (SELECT max(t.token) FROM rowlock_tokens AS t WHERE t.token < absurd),
        (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.token_floor < absurd));
      INSERT INTO rowlock_reach AS r (ttl, until, base) VALUES (longest, an_hour, highest) RETURNING r.xmin INTO mine;
      INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base, made_by)
      VALUES (clock_timestamp() + CASE WHEN (SELECT z.enabled FROM rowlock_quarantine AS z) IS FALSE THEN interval '0'
        ELSE longest * interval '1 millisecond' + interval '1 second' END, longest, an_hour, clock_timestamp(), highest, mine);
      CONTINUE;  -- where the pause is off, it grants
    END IF;
    PERFORM FROM rowlock_pulse AS q
    WHERE q.made_by = q.xmin AND q.made_at = pg_relation_filepath(q.tableoid) AND q.reach >= wanted AND q.until > clock_timestamp()
      AND q.safe_from <= clock_timestamp() + interval '301 seconds';
    IF FOUND THEN
      RETURN NULL;
    END IF;
    INSERT INTO rowlock_reach AS r (ttl, until, base) VALUES (wanted, an_hour, 0) RETURNING r.xmin INTO mine;
    INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base, made_by) VALUES (from_then, wanted, an_hour, since, highest, mine);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION rowlock_begun() RETURNS timestamptz
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN coalesce((SELECT max(q.begun) FROM rowlock_pulse AS q
    WHERE q.made_by = q.xmin AND q.made_at = pg_relation_filepath(q.tableoid)), 'infinity');
END $$;

-- What they name is the server's own or, with its schema, rowlock's: as version 1 has it. [C12]
DO $$
DECLARE
  place CONSTANT text := (
    SELECT pg_catalog.quote_ident(n.nspname)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) 'rowlock_locks'::pg_catalog.regclass);
  one pg_catalog.regprocedure;
  body text;
BEGIN
  FOREACH one IN ARRAY ARRAY['rowlock_granting(bigint)', 'rowlock_begun()']::pg_catalog.regprocedure[] LOOP
  body := (SELECT p.prosrc FROM pg_catalog.pg_proc AS p WHERE p.oid OPERATOR(pg_catalog.=) one);
  EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', one);
  IF pg_catalog.strpos('rowlock_locks', '.') OPERATOR(pg_catalog.=) 0 THEN  -- else the migrator has put it in
    EXECUTE pg_catalog.replace(pg_catalog.pg_get_functiondef(one), body,
      pg_catalog.regexp_replace(body, 'rowlock_locks|rowlock_tokens|rowlock_meta|rowlock_permits|rowlock_reach|rowlock_pulse|rowlock_quarantine',
        pg_catalog.concat(pg_catalog.replace(place, '\', '\\'), '.\&'), 'g'));
  END IF;
  END LOOP;
END $$;

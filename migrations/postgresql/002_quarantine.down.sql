UPDATE rowlock_meta SET schema_version = 1, oldest_reader = 1 WHERE id = 1;
CREATE OR REPLACE FUNCTION rowlock_granting(ttl bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN 0;
END $$;
CREATE OR REPLACE FUNCTION rowlock_begun() RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN '-infinity';
END $$;
DROP TABLE rowlock_pulse;
DROP TABLE rowlock_reach;
DROP TABLE rowlock_quarantine;

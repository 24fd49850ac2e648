-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id OPERATOR(pg_catalog.=) 1

-- What a standby of the server has, too, and a copy made by pg_dump or in another database has not.
-- name: meta_lineage
SELECT (SELECT c.system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system() AS c)
  OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) d.oid::pg_catalog.text
FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()

-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id = 1

-- What a standby of the server has, too, and a copy made by pg_dump or in another database has not.
-- name: meta_lineage
SELECT (SELECT system_identifier::text FROM pg_catalog.pg_control_system()) || ':' || oid::text
FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()

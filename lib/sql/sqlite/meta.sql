-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id = 1

-- The file tells: lib/doc/identity.md.
-- name: meta_lineage
SELECT NULL

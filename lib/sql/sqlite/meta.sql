-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id = 1

-- The file tells: lib/doc/identity.md.
-- name: meta_lineage
SELECT NULL

-- Which of our names (prefix ?2) are views: what they do is somebody else's. There are no schemas. [C12]
-- name: meta_views
SELECT name FROM sqlite_schema
WHERE type = 'view' AND ?1 IS NOT NULL AND lower(name) IN (lower(?2) || 'meta', lower(?2) || 'migrations', lower(?2) || 'locks',
  lower(?2) || 'tokens', lower(?2) || 'reaper', lower(?2) || 'permits', lower(?2) || 'quorum', lower(?2) || 'admitted')

-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id OPERATOR(pg_catalog.=) 1

-- What a standby of the server has, too, and a copy made by pg_dump or in another database has not.
-- name: meta_lineage
SELECT (SELECT c.system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system() AS c)
  OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) d.oid::pg_catalog.text
FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()

-- Which of our names in schema $1 (prefix $2) are no ordinary tables. A view runs functions of whoever made it, with the rights of
-- whoever reads it: so this comes before anything is read. [C12]
-- name: meta_views
SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind NOT IN ('r', 'p') AND c.relname IN ($2::text || 'meta', $2::text || 'migrations',
  $2::text || 'locks', $2::text || 'tokens', $2::text || 'reaper', $2::text || 'permits', $2::text || 'quorum', $2::text || 'admitted',
  $2::text || 'reach', $2::text || 'pulse', $2::text || 'quarantine')

-- A change, so that something is flushed: with it is all that was committed before. No SELECT to the session, which flushes none.
-- name: flush_committed
/* flushed */ SELECT pg_logical_emit_message(true, 'rowlock', '')::text

-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id = 1

-- Of Galera's nodes: all have the same. A replica that is promoted has nothing in common with its former source.
-- name: meta_lineage
SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'

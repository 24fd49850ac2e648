-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id = 1

-- Of Galera's nodes: all have the same. A replica that is promoted has nothing in common with its former source.
-- name: meta_lineage
SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'

-- Which of our names in schema $1 (empty: the session's database; prefix $2) are views. A view may run functions of whoever made it with the
-- rights of whoever reads it (SQL SECURITY INVOKER): so this comes before anything is read. [C12] One name at a time: for a list of
-- names MariaDB would look into every table of the database.
-- name: meta_views
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'meta') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'migrations') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'locks') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'tokens') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'reaper') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'permits') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'quorum') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'admitted') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'pulse') AND t.table_type LIKE '%VIEW'
UNION ALL
SELECT t.table_name FROM information_schema.tables AS t
WHERE t.table_schema = coalesce(nullif($1, ''), database()) AND t.table_name = concat($2, 'quarantine') AND t.table_type LIKE '%VIEW'

-- What is flushed the server decides.
-- name: flush_committed
DO 0

-- What the doctor reads, on a session as any other of rowlock's; the same names and parameters as in the other dialects.
-- Nothing here changes anything or locks a row, and no statement waits for one.

-- Name and value of what this session has now.
-- name: doctor_session
SELECT name, setting FROM pg_settings WHERE name IN (
  'transaction_isolation', 'transaction_read_only', 'synchronous_commit', 'statement_timeout', 'lock_timeout',
  'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout', 'search_path')

-- The same of what a session has that sets nothing: reset_val is what the server, the database and the role say.
-- name: doctor_settings
SELECT name, reset_val FROM pg_settings WHERE name IN (
  'default_transaction_isolation', 'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names',
  'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout',
  'transaction_timeout')

-- name: doctor_status
SELECT 'in_recovery', pg_is_in_recovery()::text
UNION ALL SELECT 'backend_pid', pg_backend_pid()::text
UNION ALL SELECT 'user', session_user::text

-- Standbys; those whose state this role may see; those whose acknowledgement a commit waits for. A base backup that is
-- being made is none; to a role that may not see states it looks like a standby.
-- name: doctor_replicas
SELECT count(*), count(sync_state), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))
FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'

-- Of table $2 in schema $1 (empty: where the search path leads): how it is stored; how names are compared, if it has any; whether one
-- index sees to it that a name (of locks: in each generation) is there once, also for ON CONFLICT; whether row-level security is active for this
-- role, and then, whether it may hide rows: no policy of ours or everybody's lets all rows be seen and written, or a
-- restrictive one narrows that.
-- name: doctor_tables
SELECT t.relpersistence::text, c.collname::text, c.collisdeterministic,
  c.collname IN ('C', 'POSIX', 'ucs_basic', 'pg_c_utf8'),
  EXISTS (SELECT 1 FROM pg_index AS i
    WHERE i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
      AND i.indexprs IS NULL AND i.indkey[0] = a.attnum
      AND CASE WHEN g.attnum IS NULL THEN i.indnkeyatts = 1 ELSE i.indnkeyatts = 2 AND i.indkey[1] = g.attnum END),
  row_security_active(t.oid), (
    EXISTS (SELECT 1 FROM pg_policy AS p WHERE p.polrelid = t.oid AND NOT p.polpermissive)
    OR NOT EXISTS (SELECT 1 FROM pg_policy AS p WHERE p.polrelid = t.oid AND p.polpermissive AND p.polcmd = '*'
      AND pg_get_expr(p.polqual, p.polrelid) = 'true'
      AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'
      AND EXISTS (SELECT 1 FROM unnest(p.polroles) AS r WHERE r = 0 OR pg_has_role(r, 'usage'))))
FROM pg_class AS t
LEFT JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attname = 'name'
LEFT JOIN pg_attribute AS g ON g.attrelid = t.oid AND g.attname = 'generation' AND NOT g.attisdropped
LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE t.oid = to_regclass(CASE WHEN $1::text = '' THEN '' ELSE quote_ident($1::text) || '.' END || quote_ident($2::text))

-- Who else than its owner, the owner of table $2 there and this role may create in schema $1. (Superusers may anyway.)
-- name: doctor_creators
SELECT coalesce(r.rolname::text, 'PUBLIC')
FROM pg_class AS t
JOIN pg_namespace AS n ON n.oid = t.relnamespace
CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
LEFT JOIN pg_roles AS r ON r.oid = a.grantee
WHERE n.nspname = $1 AND t.relname = $2 AND a.privilege_type = 'CREATE' AND a.grantee NOT IN (n.nspowner, t.relowner)
  AND (r.rolname IS NULL OR (NOT r.rolsuper AND r.rolname <> current_user))
ORDER BY 1

-- Whose snapshot is the oldest that keeps dead rows in this database, of how many seconds ago (null: not known), of how many
-- transactions ago, and what ends it; and how many sessions this role may not look at. A transaction that has written keeps them as
-- well, one of a row_lock among them.
-- name: doctor_snapshots
SELECT o.whose, o.seconds, o.transactions, o.ends, h.hidden
FROM (SELECT count(*) AS hidden FROM pg_stat_activity WHERE datname = current_database() AND query = '<insufficient privilege>') AS h
LEFT JOIN (
  SELECT s.whose, extract(epoch FROM clock_timestamp() - s.since)::bigint AS seconds, age(s.oldest)::bigint AS transactions, s.ends
  FROM (
    SELECT format('session %s (%s)', pid, application_name), xact_start, coalesce(backend_xmin, backend_xid),
      format('SELECT pg_terminate_backend(%s)', pid)
    FROM pg_stat_activity AS a WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
    UNION ALL
    SELECT format('prepared transaction %L', gid), prepared, transaction, format('ROLLBACK PREPARED %L', gid)
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT format('replication slot %L', slot_name), NULL, xmin, format('SELECT pg_drop_replication_slot(%L), if nobody uses it', slot_name)
    FROM pg_replication_slots
    UNION ALL
    SELECT format('standby %s (%s)', application_name, client_addr), NULL, backend_xmin, 'hot_standby_feedback = off on the standby'
    FROM pg_stat_replication) AS s(whose, since, oldest, ends)
  WHERE s.oldest IS NOT NULL
  ORDER BY age(s.oldest) DESC, s.since LIMIT 1) AS o ON true

-- Whether the index is there by which the permits of a name are counted, in table $2 of schema $1 as in doctor_tables.
-- name: doctor_permits_index
SELECT EXISTS (
  SELECT 1 FROM pg_index AS i
  WHERE i.indrelid = to_regclass(CASE WHEN $1::text = '' THEN '' ELSE quote_ident($1::text) || '.' END || quote_ident($2::text))
    AND i.indisvalid AND i.indpred IS NULL AND i.indkey[0] = 0 AND i.indnkeyatts = 2
    AND pg_get_indexdef(i.indexrelid, 1, true) = '(name || ''''::text)' AND pg_get_indexdef(i.indexrelid, 2, true) = 'token')

-- How row_wait finds its row.
-- name: doctor_explain
EXPLAIN (COSTS OFF) SELECT (expires_at <= clock_timestamp() - interval '1 hour')::int::bigint
FROM rowlock_locks WHERE name = 'rowlock.doctor' AND strategy = 'row_lock' FOR UPDATE

-- Microseconds since 1970.
-- name: doctor_clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- One for each right that locking needs: what the server refuses, it refuses before it looks for rows.
-- name: doctor_may_select_meta
SELECT 1 FROM rowlock_meta WHERE false

-- name: doctor_may_select_locks
SELECT 1 FROM rowlock_locks WHERE false

-- name: doctor_may_insert_locks
INSERT INTO rowlock_locks (name, strategy, token, expires_at) SELECT '', '', 0, clock_timestamp() WHERE false

-- name: doctor_may_update_locks
UPDATE rowlock_locks SET term = NULL WHERE false

-- name: doctor_may_delete_locks
DELETE FROM rowlock_locks WHERE false

-- name: doctor_may_select_tokens
SELECT 1 FROM rowlock_tokens WHERE false

-- name: doctor_may_insert_tokens
INSERT INTO rowlock_tokens (name, token) SELECT '', 0 WHERE false

-- name: doctor_may_update_tokens
UPDATE rowlock_tokens SET token = 0 WHERE false

-- name: doctor_may_select_permits
SELECT 1 FROM rowlock_permits WHERE false

-- name: doctor_may_insert_permits
INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) SELECT '', '', '', 0, clock_timestamp(), 1, 1 WHERE false

-- name: doctor_may_update_permits
UPDATE rowlock_permits SET note = '' WHERE false

-- name: doctor_may_delete_permits
DELETE FROM rowlock_permits WHERE false

-- A damaged table is the server's to find.
-- name: doctor_damage
SELECT NULL FROM (SELECT $1::text AS one) AS asked WHERE 1 = 0

-- Names whose permits were taken under different limits.
-- name: doctor_limits
SELECT name, min(told), max(told) FROM rowlock_permits GROUP BY name HAVING min(told) <> max(told) ORDER BY name LIMIT 4

-- What the doctor reads, for MySQL and MariaDB: lib/sql/postgresql/doctor.sql says what each is for.

-- name: doctor_session
SHOW SESSION VARIABLES WHERE Variable_name IN (
  'transaction_isolation', 'tx_isolation', 'autocommit', 'wait_timeout', 'innodb_lock_wait_timeout',
  'max_statement_time', 'max_execution_time', 'idle_transaction_timeout', 'idle_write_transaction_timeout',
  'idle_readonly_transaction_timeout', 'binlog_format', 'wsrep_on', 'wsrep_sync_wait',
  'group_replication_single_primary_mode')

-- name: doctor_settings
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
  'transaction_isolation', 'tx_isolation', 'autocommit', 'init_connect', 'max_statement_time', 'max_execution_time',
  'idle_transaction_timeout', 'idle_write_transaction_timeout', 'idle_readonly_transaction_timeout',
  'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_doublewrite', 'sync_binlog', 'log_bin',
  'read_only', 'super_read_only', 'innodb_read_only',
  'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_timeout',
  'rpl_semi_sync_source_enabled', 'rpl_semi_sync_source_timeout')

-- name: doctor_status
SHOW SESSION STATUS WHERE Variable_name IN (
  'Ssl_cipher', 'Ssl_version', 'Slaves_connected', 'wsrep_cluster_status', 'wsrep_ready', 'wsrep_cluster_size',
  'Rpl_semi_sync_master_status', 'Rpl_semi_sync_master_clients',
  'Rpl_semi_sync_source_status', 'Rpl_semi_sync_source_clients')

-- Replicas that are connected. Without the privilege PROCESS one sees only one's own sessions, and is not told: so that
-- privilege is asked for, by a table that nobody may read without it.
-- name: doctor_replicas
SELECT count(*) FROM information_schema.processlist
WHERE command LIKE 'Binlog Dump%' AND (SELECT count(*) FROM information_schema.innodb_cmp) >= 0

-- Engine; type and collation of the names' column. By constants, as migrate_columns.
-- name: doctor_tables
SELECT t.engine, CAST(c.data_type AS CHAR(64)), c.collation_name
FROM information_schema.columns AS c
CROSS JOIN (SELECT engine FROM information_schema.tables
  WHERE table_schema = coalesce(nullif($1, ''), database()) AND table_name = $2) AS t
WHERE c.table_schema = coalesce(nullif($1, ''), database()) AND c.table_name = $2 AND c.column_name = 'name'

-- Nobody's objects come between a name and what it means here.
-- name: doctor_creators
SELECT NULL FROM (SELECT $1 AS one, $2 AS two) AS asked WHERE 1 = 0

-- name: doctor_snapshots
SELECT NULL FROM (SELECT 1 AS one) AS asked WHERE 1 = 0

-- name: doctor_permits_index
SELECT NULL FROM (SELECT $1 AS one, $2 AS two) AS asked WHERE 1 = 0

-- How row_wait finds its row, by its name alone: the key must be the name and nothing else. No lock has an empty name.
-- While the server plans, it reads what is found by a whole unique key, and says so.
-- name: doctor_explain
EXPLAIN SELECT expires_at FROM rowlock_locks FORCE INDEX (PRIMARY) WHERE name = '' FOR UPDATE

-- name: doctor_clock
SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))

-- name: doctor_may_select_meta
SELECT 1 FROM rowlock_meta WHERE 1 = 0

-- name: doctor_may_select_locks
SELECT 1 FROM rowlock_locks WHERE 1 = 0

-- name: doctor_may_insert_locks
INSERT INTO rowlock_locks (name, strategy, token, expires_at) SELECT '', '', 0, utc_timestamp(6) FROM DUAL WHERE 1 = 0

-- name: doctor_may_update_locks
UPDATE rowlock_locks SET term = NULL WHERE 1 = 0

-- name: doctor_may_delete_locks
DELETE FROM rowlock_locks WHERE 1 = 0

-- name: doctor_may_select_tokens
SELECT 1 FROM rowlock_tokens WHERE 1 = 0

-- name: doctor_may_insert_tokens
INSERT INTO rowlock_tokens (name, token) SELECT '', 0 FROM DUAL WHERE 1 = 0

-- name: doctor_may_update_tokens
UPDATE rowlock_tokens SET token = 0 WHERE 1 = 0

-- name: doctor_may_select_permits
SELECT 1 FROM rowlock_permits WHERE 1 = 0

-- name: doctor_may_insert_permits
INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) SELECT '', '', '', 0, utc_timestamp(6), 1, 1 FROM DUAL WHERE 1 = 0

-- name: doctor_may_update_permits
UPDATE rowlock_permits SET note = '' WHERE 1 = 0

-- name: doctor_may_delete_permits
DELETE FROM rowlock_permits WHERE 1 = 0

-- A damaged table is the server's to find.
-- name: doctor_damage
SELECT NULL FROM (SELECT $1 AS one) AS asked WHERE 1 = 0

-- Names whose permits were taken under different limits.
-- name: doctor_limits
SELECT name, min(told), max(told) FROM rowlock_permits GROUP BY name HAVING min(told) <> max(told) ORDER BY name LIMIT 4

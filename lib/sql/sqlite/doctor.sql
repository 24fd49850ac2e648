-- What the doctor reads, for SQLite: lib/sql/postgresql/doctor.sql says what each is for. A file has no settings but those
-- of the connection, no replicas, and its clock is this machine's. What writes waits for another program's transaction, as
-- any write does, and writes nothing.

-- name: doctor_session
SELECT 'journal_mode', journal_mode FROM pragma_journal_mode
UNION ALL SELECT 'synchronous', CAST(synchronous AS TEXT) FROM pragma_synchronous
UNION ALL SELECT 'file', file FROM pragma_database_list WHERE name = 'main'

-- name: doctor_settings
SELECT NULL, NULL WHERE 1 = 0

-- name: doctor_status
SELECT NULL, NULL WHERE 1 = 0

-- name: doctor_replicas
SELECT NULL WHERE 1 = 0

-- Whether an index sees to it that a name is there once, byte for byte, in table ?2. (?1: there are no schemas.)
-- name: doctor_tables
SELECT EXISTS (SELECT 1 FROM pragma_index_list(?2) AS i
  WHERE i."unique" = 1 AND i.partial = 0
    AND (SELECT group_concat(x.name || ' ' || x.coll) FROM pragma_index_xinfo(i.name) AS x WHERE x."key" = 1)
      = 'name BINARY')

-- What is wrong with the pages of table ?1 ("ok": nothing), and in which file. Reads all of them, and nothing else of the file.
-- name: doctor_damage
SELECT q.quick_check, (SELECT d.file FROM pragma_database_list AS d WHERE d.name = 'main') FROM pragma_quick_check(?1) AS q

-- Nobody's objects come between a name and what it means here.
-- name: doctor_creators
SELECT NULL FROM (SELECT ?1 AS one, ?2 AS two) AS asked WHERE 1 = 0

-- name: doctor_snapshots
SELECT NULL FROM (SELECT 1 AS one) AS asked WHERE 1 = 0

-- name: doctor_permits_index
SELECT NULL FROM (SELECT ?1 AS one, ?2 AS two) AS asked WHERE 1 = 0

-- How any statement on one name finds its row.
-- name: doctor_explain
EXPLAIN QUERY PLAN UPDATE rowlock_locks SET term = NULL WHERE name = ''

-- name: doctor_clock
SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000

-- name: doctor_may_select_meta
SELECT 1 FROM rowlock_meta WHERE 1 = 0

-- name: doctor_may_select_locks
SELECT 1 FROM rowlock_locks WHERE 1 = 0

-- name: doctor_may_insert_locks
INSERT INTO rowlock_locks (name, strategy, token, expires_at) SELECT '', '', 0, 0 WHERE 1 = 0

-- name: doctor_may_update_locks
UPDATE rowlock_locks SET term = NULL WHERE 1 = 0

-- name: doctor_may_delete_locks
DELETE FROM rowlock_locks WHERE 1 = 0

-- name: doctor_may_select_tokens
SELECT 1 FROM rowlock_tokens WHERE 1 = 0

-- name: doctor_may_insert_tokens
INSERT INTO rowlock_tokens (name, token) SELECT '', 0 WHERE 1 = 0

-- name: doctor_may_update_tokens
UPDATE rowlock_tokens SET token = 0 WHERE 1 = 0

-- name: doctor_may_select_permits
SELECT 1 FROM rowlock_permits WHERE 1 = 0

-- name: doctor_may_insert_permits
INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) SELECT '', '', '', 0, 0, 1, 1 WHERE 1 = 0

-- name: doctor_may_update_permits
UPDATE rowlock_permits SET note = '' WHERE 1 = 0

-- name: doctor_may_delete_permits
DELETE FROM rowlock_permits WHERE 1 = 0

-- Names whose permits were taken under different limits.
-- name: doctor_limits
SELECT name, min(told), max(told) FROM rowlock_permits GROUP BY name HAVING min(told) <> max(told) ORDER BY name LIMIT 4

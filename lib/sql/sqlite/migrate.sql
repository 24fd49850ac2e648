-- What `migrate` asks and records; the same names, parameters and columns as in the other dialects. The migrations' own
-- text is in migrations/sqlite. Every change of the tables is one transaction: migrate_begin, migrate_enter, ..., COMMIT.

-- A write transaction from the start: SQLite has one writer at a time, and nothing changes under it.
-- name: migrate_begin
BEGIN IMMEDIATE

-- name: migrate_begin_read
BEGIN

-- The transaction's snapshot holds for the schema, too: what is read can't contradict itself.
-- name: migrate_version
SELECT schema_version, oldest_reader, '' FROM rowlock_meta WHERE id = 1

-- migrate_begin is the lock on migrations already.
-- name: migrate_enter
SELECT 1 WHERE ?1 IS NOT NULL AND ?2 IS NOT NULL

-- migrate_begin keeps all writers out already.
-- name: migrate_exclude
SELECT 1

-- Up to four names that are held.
-- name: migrate_held
SELECT name FROM rowlock_locks WHERE term IS NOT NULL AND expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
UNION SELECT name FROM rowlock_permits WHERE expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
ORDER BY name LIMIT 4

-- The highest token that is known: above it every fresh name begins. 0: none was ever drawn.
-- name: migrate_highest_token
SELECT max(token_floor, (SELECT coalesce(max(token), 0) FROM rowlock_locks), (SELECT coalesce(max(token), 0) FROM rowlock_tokens))
FROM rowlock_meta WHERE id = 1

-- The highest token that was admitted. 0: none.
-- name: migrate_highest_admitted
SELECT coalesce(max(token), 0) FROM rowlock_admitted

-- SQLite does not tell who has the file locked.
-- name: migrate_in_the_way
SELECT 0, '', '', '', 0 WHERE ?1 IS NULL AND ?2 IS NULL

-- A file has no roles.
-- name: migrate_strangers
SELECT NULL FROM (SELECT ?1 AS one, ?2 AS two, ?3 AS three) AS asked WHERE 1 = 0

-- There are no functions here.
-- name: migrate_routines_missing
SELECT NULL FROM (SELECT ?1 AS one, ?2 AS two, ?3 AS three) AS asked WHERE 1 = 0

-- There are no schemas.
-- name: migrate_schema_there
SELECT 1 WHERE ?1 IS NOT NULL

-- The columns of table ?1, a quoted name.
-- name: migrate_columns
SELECT name, lower(type) || CASE WHEN "notnull" THEN ' not null' ELSE '' END
  || CASE WHEN pk > 0 THEN ' primary key' ELSE '' END
FROM pragma_table_info(trim(?1, '"'))
ORDER BY cid

-- What migrate_columns should find at schema version ?1. A test compares it with what the migrations make.
-- name: migrate_columns_expected
SELECT column2, column3, column4
FROM (VALUES
  (1, 'meta', 'id', 'integer primary key'),
  (1, 'meta', 'database_id', 'text not null'),
  (1, 'meta', 'schema_version', 'integer not null'),
  (1, 'meta', 'oldest_reader', 'integer not null'),
  (1, 'meta', 'token_floor', 'integer not null'),
  (1, 'meta', 'token_ceiling', 'integer not null'),
  (1, 'meta', 'boot_floor', 'integer not null'),
  (1, 'meta', 'boot_id', 'text not null'),
  (1, 'migrations', 'version', 'integer primary key'),
  (1, 'migrations', 'name', 'text not null'),
  (1, 'migrations', 'checksum', 'text not null'),
  (1, 'migrations', 'applied_at', 'integer not null'),
  (1, 'locks', 'name', 'text not null primary key'),
  (1, 'locks', 'strategy', 'text not null'),
  (1, 'locks', 'term', 'text'),
  (1, 'locks', 'token', 'integer not null'),
  (1, 'locks', 'owner_host', 'text'),
  (1, 'locks', 'owner_pid', 'integer'),
  (1, 'locks', 'owner_process', 'text'),
  (1, 'locks', 'owner_thread', 'integer'),
  (1, 'locks', 'renewals', 'integer not null'),
  (1, 'locks', 'ttl', 'integer not null'),
  (1, 'locks', 'takeover', 'text not null'),
  (1, 'locks', 'acquired_at', 'integer'),
  (1, 'locks', 'expires_at', 'integer not null'),
  (1, 'locks', 'hard_until', 'integer'),
  (1, 'locks', 'revoked', 'integer not null'),
  (1, 'locks', 'note', 'text not null'),
  (1, 'tokens', 'name', 'text not null primary key'),
  (1, 'tokens', 'token', 'integer not null'),
  (1, 'reaper', 'id', 'integer primary key'),
  (1, 'reaper', 'started_at', 'integer'),
  (1, 'reaper', 'finished_at', 'integer'),
  (1, 'reaper', 'host', 'text'),
  (1, 'reaper', 'pid', 'integer'),
  (1, 'reaper', 'report', 'text'),
  (1, 'locks', 'longest', 'integer'),
  (1, 'locks', 'longest_term', 'text'),
  (1, 'locks', 'permit_limit', 'integer'),
  (1, 'locks', 'intent_units', 'integer'),
  (1, 'locks', 'intent_term', 'text'),
  (1, 'locks', 'intent_until', 'integer'),
  (1, 'permits', 'name', 'text not null primary key'),
  (1, 'permits', 'strategy', 'text not null'),
  (1, 'permits', 'term', 'text not null primary key'),
  (1, 'permits', 'token', 'integer not null'),
  (1, 'permits', 'owner_host', 'text'),
  (1, 'permits', 'owner_pid', 'integer'),
  (1, 'permits', 'owner_process', 'text'),
  (1, 'permits', 'owner_thread', 'integer'),
  (1, 'permits', 'renewals', 'integer not null'),
  (1, 'permits', 'ttl', 'integer not null'),
  (1, 'permits', 'takeover', 'text not null'),
  (1, 'permits', 'acquired_at', 'integer'),
  (1, 'permits', 'expires_at', 'integer not null'),
  (1, 'permits', 'hard_until', 'integer'),
  (1, 'permits', 'revoked', 'integer not null'),
  (1, 'permits', 'note', 'text not null'),
  (1, 'permits', 'longest', 'integer'),
  (1, 'permits', 'longest_term', 'text'),
  (1, 'permits', 'units', 'integer not null'),
  (1, 'permits', 'told', 'integer not null'),
  (1, 'quorum', 'id', 'integer primary key'),
  (1, 'quorum', 'quorum_id', 'text'),
  (1, 'quorum', 'epoch', 'integer not null'),
  (1, 'quorum', 'epoch_id', 'text'),
  (1, 'quorum', 'members', 'text not null'),
  (1, 'quorum', 'max_ttl', 'integer not null'),
  (1, 'quorum', 'votes', 'integer not null'),
  (1, 'admitted', 'name', 'text not null primary key'),
  (1, 'admitted', 'token', 'integer not null'))
WHERE column1 <= ?1

-- name: migrate_records
SELECT version, name, checksum, strftime('%Y-%m-%dT%H:%M:%SZ', applied_at / 1000, 'unixepoch')
FROM rowlock_migrations ORDER BY version

-- name: migrate_record
INSERT INTO rowlock_migrations (version, name, checksum) VALUES (?1, ?2, ?3)
ON CONFLICT (version) DO UPDATE SET name = ?2, checksum = ?3

-- Forgets version ?1 and what came after it.
-- name: migrate_forget
DELETE FROM rowlock_migrations WHERE version >= ?1

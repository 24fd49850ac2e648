-- What `migrate` asks and records; the same names, parameters and columns as in the other dialects. The migrations' own
-- text is in migrations/mysql.
--
-- DDL commits: there is no transaction round a migration. Instead one migrator at a time works on the tables
-- (migrate_enter), each text may be run again from its start whatever part of it was run before, and says in rowlock_meta
-- which version there is: last on the way up, first on the way down. Tables that belong to no version because a migrator
-- died are recognized, and completed by the next one. A text that goes down begins with LOCK TABLES: from then on no
-- other session reads or writes them, until they are gone.

-- name: migrate_begin
DO 0

-- Reads rowlock_meta first and so keeps it from being locked by a migrator on its way down until COMMIT: what is read
-- in between can't have been two versions.
-- name: migrate_begin_read
START TRANSACTION READ ONLY

-- name: migrate_version
SELECT schema_version, oldest_reader, '' FROM rowlock_meta WHERE id = 1

-- One migration at a time for schema $1 (empty: the session's database) and prefix $2; does not wait. Held until the
-- session ends. The name is hashed because it must not be longer than 64 characters (new versions of MySQL have no MD5()).
-- name: migrate_enter
SELECT coalesce(GET_LOCK(concat('rowlock migrate ', left(sha2(concat(coalesce(nullif($1, ''), database(), ''), '.', coalesce($2, '')), 256), 32)), 0), 0)

-- The texts that go down begin with it.
-- name: migrate_exclude
DO 0

-- Up to four names that are held.
-- name: migrate_held
SELECT name FROM rowlock_locks WHERE term IS NOT NULL AND expires_at > utc_timestamp(6)
UNION SELECT name FROM rowlock_permits WHERE expires_at > utc_timestamp(6)
ORDER BY name LIMIT 4

-- The highest token that is known: above it every fresh name begins. 0: none was ever drawn.
-- name: migrate_highest_token
SELECT greatest(token_floor, (SELECT coalesce(max(token), 0) FROM rowlock_locks), (SELECT coalesce(max(token), 0) FROM rowlock_tokens))
FROM rowlock_meta WHERE id = 1

-- The highest token that was admitted. 0: none.
-- name: migrate_highest_admitted
SELECT coalesce(max(token), 0) FROM rowlock_admitted

-- Who is migrating, or has a transaction open: what a migration may be waiting for. Whose tables it has read is not told.
-- name: migrate_in_the_way
SELECT p.id, p.user, '', lower(p.command), CAST(coalesce(timestampdiff(SECOND, t.trx_started, now()), 0) AS SIGNED)
FROM information_schema.processlist AS p LEFT JOIN information_schema.innodb_trx AS t ON t.trx_mysql_thread_id = p.id
WHERE p.id <> connection_id() AND (t.trx_id IS NOT NULL OR p.id = IS_USED_LOCK(
  concat('rowlock migrate ', left(sha2(concat(coalesce(nullif($1, ''), database(), ''), '.', coalesce($2, '')), 256), 32))))
ORDER BY t.trx_started LIMIT 3

-- Procedures in schema $1 (empty: the session's database) with one of our names (prefix $2) that are not as ours: such as run with the
-- definer's rights, or that another account has made than the others. Ours run with the rights of whoever calls them, and so would
-- its text. Tables belong to nobody here, and another account may rightly look than the one that migrated: so definers are
-- compared with each other only, with this account's own, or else with the one that has made most. Only for who looks: a migration ($3 = 1) runs no procedure
-- by these names, and makes those anew that it changes.
-- name: migrate_strangers
WITH there AS (
  SELECT r.routine_name, r.definer, r.security_type
  FROM information_schema.routines AS r
  WHERE $3 = 0 AND r.routine_schema = coalesce(nullif($1, ''), database()) AND r.routine_type = 'PROCEDURE'
    AND r.routine_name IN (concat($2, 'granting'), concat($2, 'begun'), concat($2, 'release'), concat($2, 'renew'), concat($2, 'require'), concat($2, 'try_acquire'),
      concat($2, 'done'), concat($2, 'release_once'), concat($2, 'release_permit'), concat($2, 'renew_permit'),
      concat($2, 'require_permit'), concat($2, 'take_permit'), concat($2, 'try_acquire_exclusive'), concat($2, 'try_acquire_once'),
      concat($2, 'try_acquire_permit'), concat($2, 'try_acquire_shared'), concat($2, 'admit'))),
maker AS (
  SELECT t.definer FROM there AS t GROUP BY t.definer ORDER BY t.definer = current_user() DESC, count(*) DESC, t.definer LIMIT 1)
SELECT t.routine_name, CASE WHEN t.security_type = 'INVOKER'
    THEN concat('was made by account ', t.definer, ', others of rowlock''s procedures by ', m.definer,
      ', and runs with the rights of whoever calls it')
    ELSE concat('runs with the rights of account ', t.definer, ', rowlock''s procedures with those of whoever calls them') END
FROM there AS t CROSS JOIN maker AS m
WHERE t.security_type <> 'INVOKER' OR t.definer <> m.definer
ORDER BY t.routine_name

-- Which procedures of schema version $3 are not to be seen in schema $1 (empty: the session's database; prefix $2). Whoever has no
-- right on one does not see it: see lib/migrate/routines.cpp.
-- name: migrate_routines_missing
SELECT e.name
FROM JSON_TABLE('[
  [1, "granting"],
  [1, "begun"],
  [1, "release"],
  [1, "renew"],
  [1, "require"],
  [1, "try_acquire"],
  [1, "done"],
  [1, "release_once"],
  [1, "release_permit"],
  [1, "renew_permit"],
  [1, "require_permit"],
  [1, "take_permit"],
  [1, "try_acquire_exclusive"],
  [1, "try_acquire_once"],
  [1, "try_acquire_permit"],
  [1, "try_acquire_shared"],
  [1, "admit"]
]', '$[*]' COLUMNS (since INT PATH '$[0]', name VARCHAR(64) PATH '$[1]')) AS e
WHERE e.since <= $3 AND concat($2, e.name) NOT IN (
  SELECT r.routine_name FROM information_schema.routines AS r
  WHERE r.routine_schema = coalesce(nullif($1, ''), database()) AND r.routine_type = 'PROCEDURE')
ORDER BY e.since, e.name

-- Whether schema $1 is there.
-- name: migrate_schema_there
SELECT count(*) FROM information_schema.schemata WHERE schema_name = $1

-- The columns of table $1, a quoted and perhaps qualified name, and what it is stored in unless that is InnoDB.
-- Both views are asked for the table by constants, and not joined by the table's name: MariaDB would look for that into
-- every table of the server.
-- name: migrate_columns
SELECT c.column_name, concat(c.data_type,
  CASE WHEN c.data_type IN ('varchar', 'varbinary') THEN concat('(', c.character_maximum_length, ')') ELSE '' END,
  CASE WHEN c.data_type = 'datetime' THEN concat('(', c.datetime_precision, ')') ELSE '' END,
  CASE WHEN c.collation_name IS NULL THEN '' ELSE concat(' ', c.collation_name) END,
  CASE WHEN c.is_nullable = 'NO' THEN ' not null' ELSE '' END,
  CASE WHEN c.column_key = 'PRI' THEN ' primary key' ELSE '' END,
  CASE WHEN t.engine = 'InnoDB' THEN '' ELSE concat(' in ', coalesce(t.engine, 'nothing')) END)
FROM information_schema.columns AS c
CROSS JOIN (SELECT engine FROM information_schema.tables
  WHERE table_schema = CASE WHEN locate('`.`', $1) > 0
      THEN trim(LEADING '`' FROM substring_index($1, '`.`', 1)) ELSE database() END
    AND table_name = trim(BOTH '`' FROM substring_index($1, '`.`', -1))) AS t
WHERE c.table_schema = CASE WHEN locate('`.`', $1) > 0
    THEN trim(LEADING '`' FROM substring_index($1, '`.`', 1)) ELSE database() END
  AND c.table_name = trim(BOTH '`' FROM substring_index($1, '`.`', -1))
ORDER BY c.ordinal_position

-- What migrate_columns should find at schema version $1. A test compares it with what the migrations make.
-- name: migrate_columns_expected
SELECT e.in_table, e.column_name, e.definition
FROM JSON_TABLE('[
  [1, "meta", "id", "tinyint not null primary key"],
  [1, "meta", "database_id", "varchar(36) ascii_bin not null"],
  [1, "meta", "schema_version", "int not null"],
  [1, "meta", "oldest_reader", "int not null"],
  [1, "meta", "token_floor", "bigint not null"],
  [1, "migrations", "version", "int not null primary key"],
  [1, "migrations", "name", "varchar(64) ascii_bin not null"],
  [1, "migrations", "checksum", "varchar(64) ascii_bin not null"],
  [1, "migrations", "applied_at", "datetime(6) not null"],
  [1, "locks", "name", "varbinary(255) not null primary key"],
  [1, "locks", "strategy", "varchar(32) ascii_bin not null"],
  [1, "locks", "term", "varchar(64) ascii_bin"],
  [1, "locks", "token", "bigint not null"],
  [1, "locks", "owner_host", "varchar(255) utf8mb4_bin"],
  [1, "locks", "owner_pid", "bigint"],
  [1, "locks", "owner_process", "varchar(255) utf8mb4_bin"],
  [1, "locks", "owner_thread", "bigint"],
  [1, "locks", "renewals", "bigint not null"],
  [1, "locks", "ttl", "bigint not null"],
  [1, "locks", "takeover", "varchar(32) ascii_bin not null"],
  [1, "locks", "acquired_at", "datetime(6)"],
  [1, "locks", "expires_at", "datetime(6) not null"],
  [1, "locks", "hard_until", "datetime(6)"],
  [1, "locks", "revoked", "tinyint not null"],
  [1, "locks", "note", "varchar(1024) utf8mb4_bin not null"],
  [1, "tokens", "name", "varbinary(255) not null primary key"],
  [1, "tokens", "token", "bigint not null"],
  [1, "reaper", "id", "tinyint not null primary key"],
  [1, "reaper", "started_at", "datetime(6)"],
  [1, "reaper", "finished_at", "datetime(6)"],
  [1, "reaper", "host", "varchar(255) utf8mb4_bin"],
  [1, "reaper", "pid", "bigint"],
  [1, "reaper", "report", "text utf8mb4_bin"],
  [1, "locks", "longest", "bigint"],
  [1, "locks", "longest_term", "varchar(64) ascii_bin"],
  [1, "locks", "permit_limit", "bigint"],
  [1, "locks", "intent_units", "bigint"],
  [1, "locks", "intent_term", "varchar(64) ascii_bin"],
  [1, "locks", "intent_until", "datetime(6)"],
  [1, "permits", "name", "varbinary(255) not null primary key"],
  [1, "permits", "strategy", "varchar(32) ascii_bin not null"],
  [1, "permits", "term", "varchar(64) ascii_bin not null primary key"],
  [1, "permits", "token", "bigint not null"],
  [1, "permits", "owner_host", "varchar(255) utf8mb4_bin"],
  [1, "permits", "owner_pid", "bigint"],
  [1, "permits", "owner_process", "varchar(255) utf8mb4_bin"],
  [1, "permits", "owner_thread", "bigint"],
  [1, "permits", "renewals", "bigint not null"],
  [1, "permits", "ttl", "bigint not null"],
  [1, "permits", "takeover", "varchar(32) ascii_bin not null"],
  [1, "permits", "acquired_at", "datetime(6)"],
  [1, "permits", "expires_at", "datetime(6) not null"],
  [1, "permits", "hard_until", "datetime(6)"],
  [1, "permits", "revoked", "tinyint not null"],
  [1, "permits", "note", "varchar(1024) utf8mb4_bin not null"],
  [1, "permits", "longest", "bigint"],
  [1, "permits", "longest_term", "varchar(64) ascii_bin"],
  [1, "permits", "units", "bigint not null"],
  [1, "permits", "told", "bigint not null"],
  [1, "quorum", "id", "int not null primary key"],
  [1, "quorum", "quorum_id", "varchar(32) ascii_bin"],
  [1, "quorum", "epoch", "bigint not null"],
  [1, "quorum", "epoch_id", "varchar(32) ascii_bin"],
  [1, "quorum", "members", "varchar(4096) ascii_bin not null"],
  [1, "quorum", "max_ttl", "bigint not null"],
  [1, "quorum", "votes", "tinyint not null"],
  [1, "admitted", "name", "varbinary(255) not null primary key"],
  [1, "admitted", "token", "bigint not null"],
  [2, "pulse", "begun", "datetime(6) not null primary key"],
  [2, "pulse", "until", "datetime(6) not null primary key"],
  [2, "pulse", "reach", "bigint not null primary key"],
  [2, "pulse", "id", "bigint not null primary key"],
  [2, "pulse", "safe_from", "datetime(6) not null"],
  [2, "pulse", "base", "bigint not null"],
  [2, "pulse", "made_by", "bigint not null"],
  [2, "pulse", "made_in", "bigint not null"],
  [2, "quarantine", "id", "tinyint not null primary key"],
  [2, "quarantine", "enabled", "tinyint not null"],
  [2, "quarantine", "frozen_until", "datetime(6)"]
]', '$[*]' COLUMNS (
  since INT PATH '$[0]',
  in_table VARCHAR(64) PATH '$[1]',
  column_name VARCHAR(64) PATH '$[2]',
  definition VARCHAR(255) PATH '$[3]')) AS e
WHERE e.since <= $1

-- name: migrate_records
SELECT version, name, checksum, date_format(applied_at, '%Y-%m-%dT%H:%i:%sZ') FROM rowlock_migrations ORDER BY version

-- name: migrate_record
INSERT INTO rowlock_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, utc_timestamp(6))
ON DUPLICATE KEY UPDATE name = $2, checksum = $3

-- Forgets version $1 and what came after it.
-- name: migrate_forget
DELETE FROM rowlock_migrations WHERE version >= $1

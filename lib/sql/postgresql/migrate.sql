-- What `migrate` asks and records. The migrations' own text is in migrations/postgresql. Every change of the tables is
-- one transaction: migrate_begin, migrate_enter, ..., COMMIT.

-- READ COMMITTED: what is read after migrate_enter is what the migration before this one has left. Not READ WRITE: who
-- made reading the default for this role is obeyed.
-- name: migrate_begin
BEGIN ISOLATION LEVEL READ COMMITTED

-- Not REPEATABLE READ: the catalog shows what is there now in any case, and would contradict an old rowlock_meta.
-- name: migrate_begin_read
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY

-- The last column is another one after each migration, also after down and up again.
-- name: migrate_version
SELECT schema_version::bigint, oldest_reader::bigint, xmin::text FROM rowlock_meta WHERE id = 1

-- One migration at a time for schema $1 (empty: where the search path creates) and prefix $2; does not wait. Waits for
-- tables are bounded to a tenth of a second, because acquires of all names queue behind each of them.
-- name: migrate_enter
SELECT pg_try_advisory_xact_lock(hashtextextended(
    format('rowlock migrate %s %s', coalesce(nullif($1::text, ''), current_schema()), $2::text), 0))::int::bigint,
  set_config('lock_timeout', '100ms', true)

-- Keeps everybody from taking, renewing, drawing tokens and having them admitted until the end of the transaction; reading goes on.
-- name: migrate_exclude
DO $$ BEGIN
  LOCK TABLE rowlock_locks IN EXCLUSIVE MODE;
  IF to_regclass('rowlock_tokens') IS NOT NULL THEN
    LOCK TABLE rowlock_tokens IN EXCLUSIVE MODE;
  END IF;
  IF to_regclass('rowlock_permits') IS NOT NULL THEN
    LOCK TABLE rowlock_permits IN EXCLUSIVE MODE;
  END IF;
  IF to_regclass('rowlock_admitted') IS NOT NULL THEN
    LOCK TABLE rowlock_admitted IN EXCLUSIVE MODE;
  END IF;
END $$

-- Up to four names that are held.
-- name: migrate_held
SELECT name FROM rowlock_locks WHERE term <> 'name' AND expires_at > clock_timestamp()
UNION SELECT name FROM rowlock_permits WHERE expires_at > clock_timestamp()
ORDER BY name LIMIT 4

-- The highest token that is known: above it every fresh name begins. 0: none was ever drawn.
-- name: migrate_highest_token
SELECT greatest(token_floor, (SELECT coalesce(max(token), 0) FROM rowlock_locks), (SELECT coalesce(max(token), 0) FROM rowlock_tokens))::bigint
FROM rowlock_meta WHERE id = 1

-- The highest token that was admitted. 0: none.
-- name: migrate_highest_admitted
SELECT coalesce(max(token), 0)::bigint FROM rowlock_admitted

-- Who has locks on the tables or is migrating: what a migration may be waiting for.
-- name: migrate_in_the_way
SELECT a.pid::bigint, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
  coalesce(extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, 0)
FROM pg_stat_activity AS a
WHERE a.pid <> pg_backend_pid() AND EXISTS (
  SELECT 1 FROM pg_locks AS l
  WHERE l.pid = a.pid AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND CASE l.locktype
      WHEN 'relation' THEN l.relation IN (to_regclass('rowlock_locks'), to_regclass('rowlock_tokens'),
                                          to_regclass('rowlock_meta'), to_regclass('rowlock_migrations'),
                                          to_regclass('rowlock_reaper'), to_regclass('rowlock_permits'),
                                          to_regclass('rowlock_quorum'), to_regclass('rowlock_admitted'),
                                          to_regclass('rowlock_reach'), to_regclass('rowlock_pulse'),
                                          to_regclass('rowlock_quarantine'))
      WHEN 'advisory' THEN ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(
        format('rowlock migrate %s %s', coalesce(nullif($1::text, ''), current_schema()), $2::text), 0)
      ELSE false END)
ORDER BY a.xact_start LIMIT 3

-- What has the name of one of our tables or functions in schema $1 (prefix $2) and is not one, or belongs to somebody else:
-- its name, and what is wrong. (What must not even be read is found before: meta_views.) The owner of a table can
-- put a trigger on it, which runs with the rights of whoever writes. Trusted are this role, those that it is a member of (a superuser counts as no
-- member: it would be of all), superusers, the database's owner; with $3 = 0, for who only looks, also the schema's. Rules
-- and policies only an owner makes; a former one's rules stay.
-- Who owns a table can also replace it between this look and the next statement; so it is refused before anything is written or
-- adopted, and status, which goes on, reads in a READ ONLY transaction.
-- name: migrate_strangers
WITH me AS (SELECT r.oid, r.rolsuper FROM pg_roles AS r WHERE r.rolname = current_user),
trusted AS (
  SELECT r.oid FROM pg_roles AS r, me
  WHERE r.oid = me.oid OR r.rolsuper OR r.oid = (SELECT d.datdba FROM pg_database AS d WHERE d.datname = current_database())
    OR (NOT me.rolsuper AND (pg_has_role(me.oid, r.oid, 'MEMBER')
      OR ($3::bigint = 0 AND r.oid = (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = $1))))),
ours AS (
  SELECT c.oid, c.relname::text, c.relowner, c.relkind IN ('r', 'p') AS plain
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname IN ($2::text || 'meta', $2::text || 'migrations', $2::text || 'locks',
    $2::text || 'tokens', $2::text || 'reaper', $2::text || 'permits', $2::text || 'quorum', $2::text || 'admitted',
    $2::text || 'reach', $2::text || 'pulse', $2::text || 'quarantine')),
our_functions(name, types) AS (VALUES  -- 25: text, 20: bigint, 1186: interval, 28: xid, 1009: text[], 1011: xid[]
  ('try_acquire', '25 1186 25'), ('take_seen', '25 1186 25 28 20'), ('renew', '25 25'), ('release', '25 25'), ('require', '25 25'),
  ('try_acquire_shared', '25 1186 25'), ('try_acquire_exclusive', '25 1186 25'), ('try_acquire_permit', '25 20 20 1186 25'),
  ('permit_seen', '25 25 20 20 1186 25'), ('take_permit', '25 25 20 20 1186 25 28 20 20 1009 1009 1011'),
  ('renew_permit', '25 25'), ('release_permit', '25 25'), ('require_permit', '25 25'),
  ('try_acquire_once', '25 1186 25'), ('take_once', '25 1186 25 28 20'), ('done', '25 25 1186 25'), ('release_once', '25 25'),
  ('admit', '25 20'), ('granting', '20'), ('begun', ''), ('enter_queue', '25 25 20'))
SELECT o.relname, 'belongs to role ' || pg_get_userbyid(o.relowner)
FROM ours AS o WHERE o.relowner NOT IN (SELECT t.oid FROM trusted AS t)
UNION ALL
SELECT o.relname, format('has trigger %s, whose function belongs to role %s', t.tgname, pg_get_userbyid(p.proowner))
FROM ours AS o JOIN pg_trigger AS t ON t.tgrelid = o.oid JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND p.proowner NOT IN (SELECT t.oid FROM trusted AS t)
UNION ALL
SELECT o.relname, format('has rule %s', w.rulename) FROM ours AS o JOIN pg_rewrite AS w ON w.ev_class = o.oid WHERE o.plain
UNION ALL
SELECT format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), CASE
    WHEN p.proowner IN (SELECT t.oid FROM trusted AS t) THEN 'is none of rowlock''s functions, but may be called instead of one'
    ELSE 'belongs to role ' || pg_get_userbyid(p.proowner) END
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND p.proname IN (SELECT $2::text || o.name FROM our_functions AS o)
  AND NOT (p.proowner IN (SELECT t.oid FROM trusted AS t) AND p.prokind = 'f'
    AND (p.proname, p.proargtypes::text) IN (SELECT $2::text || o.name, o.types FROM our_functions AS o))
ORDER BY 1, 2

-- Which functions of schema version $3 are not in schema $1 (prefix $2), in the order in which they can be made. A look at the
-- catalog, which everybody may read: nobody's function runs. The types as in migrate_strangers.
-- name: migrate_routines_missing
SELECT e.name
FROM (VALUES
  (1, 'release', '25 25'),
  (1, 'renew', '25 25'),
  (1, 'require', '25 25'),
  (1, 'try_acquire', '25 1186 25'),
  (1, 'take_seen', '25 1186 25 28 20'),
  (1, 'done', '25 25 1186 25'),
  (1, 'permit_seen', '25 25 20 20 1186 25'),
  (1, 'release_once', '25 25'),
  (1, 'release_permit', '25 25'),
  (1, 'renew_permit', '25 25'),
  (1, 'require_permit', '25 25'),
  (1, 'take_once', '25 1186 25 28 20'),
  (1, 'take_permit', '25 25 20 20 1186 25 28 20 20 1009 1009 1011'),
  (1, 'try_acquire_exclusive', '25 1186 25'),
  (1, 'try_acquire_once', '25 1186 25'),
  (1, 'try_acquire_permit', '25 20 20 1186 25'),
  (1, 'try_acquire_shared', '25 1186 25'),
  (1, 'admit', '25 20'),
  (1, 'begun', ''),
  (1, 'enter_queue', '25 25 20'),
  (1, 'granting', '20')) AS e(since, name, types)
WHERE e.since <= $3::bigint AND NOT EXISTS (
  SELECT 1 FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  WHERE n.nspname = $1 AND p.proname = $2::text || e.name AND p.proargtypes::text = e.types)
ORDER BY e.since, e.name = 'take_once', e.name  -- which is made of the text of take_seen

-- Whether schema $1 is there.
-- name: migrate_schema_there
SELECT count(*) FROM pg_namespace WHERE nspname = $1

-- The columns of table $1, a quoted and perhaps qualified name. Not from information_schema, which hides what the role
-- has no grant for. The first column also tells of an unlogged table: a crash empties that, and a standby has no copy of it.
-- name: migrate_columns
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod)
  || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
  || CASE WHEN i.indrelid IS NOT NULL THEN ' primary key' ELSE '' END
  || CASE WHEN c.relpersistence = 'u' AND a.attnum = 1 THEN ' in an unlogged table' ELSE '' END
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)
WHERE a.attrelid = to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- What migrate_columns should find at schema version $1. A test compares it with what the migrations make.
-- name: migrate_columns_expected
SELECT e.in_table, e.column_name, e.definition
FROM (VALUES
  (1, 'meta', 'id', 'integer not null primary key'),
  (1, 'meta', 'database_id', 'text not null'),
  (1, 'meta', 'schema_version', 'integer not null'),
  (1, 'meta', 'oldest_reader', 'integer not null'),
  (1, 'meta', 'token_floor', 'bigint not null'),
  (1, 'migrations', 'version', 'integer not null primary key'),
  (1, 'migrations', 'name', 'text not null'),
  (1, 'migrations', 'checksum', 'text not null'),
  (1, 'migrations', 'applied_at', 'timestamp with time zone not null'),
  (1, 'locks', 'name', 'text not null primary key'),
  (1, 'locks', 'generation', 'bigint not null primary key'),
  (1, 'locks', 'takes', 'bigint not null'),
  (1, 'locks', 'strategy', 'text not null'),
  (1, 'locks', 'term', 'text'),
  (1, 'locks', 'token', 'bigint not null'),
  (1, 'locks', 'owner_host', 'text'),
  (1, 'locks', 'owner_pid', 'bigint'),
  (1, 'locks', 'owner_process', 'text'),
  (1, 'locks', 'owner_thread', 'bigint'),
  (1, 'locks', 'renewals', 'bigint not null'),
  (1, 'locks', 'ttl', 'bigint not null'),
  (1, 'locks', 'takeover', 'text not null'),
  (1, 'locks', 'acquired_at', 'timestamp with time zone'),
  (1, 'locks', 'expires_at', 'timestamp with time zone not null'),
  (1, 'locks', 'hard_until', 'timestamp with time zone'),
  (1, 'locks', 'revoked', 'boolean not null'),
  (1, 'locks', 'note', 'text not null'),
  (1, 'tokens', 'name', 'text not null primary key'),
  (1, 'tokens', 'generation', 'bigint not null primary key'),
  (1, 'tokens', 'draws', 'bigint not null'),
  (1, 'tokens', 'token', 'bigint not null'),
  (1, 'reaper', 'id', 'integer not null primary key'),
  (1, 'reaper', 'started_at', 'timestamp with time zone'),
  (1, 'reaper', 'finished_at', 'timestamp with time zone'),
  (1, 'reaper', 'host', 'text'),
  (1, 'reaper', 'pid', 'bigint'),
  (1, 'reaper', 'report', 'text'),
  (1, 'locks', 'longest', 'bigint'),
  (1, 'locks', 'longest_term', 'text'),
  (1, 'locks', 'permit_limit', 'bigint'),
  (1, 'locks', 'counted_from', 'bigint not null'),
  (1, 'locks', 'counted_too', 'bigint[]'),
  (1, 'locks', 'intent_units', 'bigint'),
  (1, 'locks', 'intent_term', 'text'),
  (1, 'locks', 'intent_until', 'timestamp with time zone'),
  (1, 'permits', 'name', 'text not null primary key'),
  (1, 'permits', 'strategy', 'text not null'),
  (1, 'permits', 'term', 'text not null primary key'),
  (1, 'permits', 'token', 'bigint not null'),
  (1, 'permits', 'owner_host', 'text'),
  (1, 'permits', 'owner_pid', 'bigint'),
  (1, 'permits', 'owner_process', 'text'),
  (1, 'permits', 'owner_thread', 'bigint'),
  (1, 'permits', 'renewals', 'bigint not null'),
  (1, 'permits', 'ttl', 'bigint not null'),
  (1, 'permits', 'takeover', 'text not null'),
  (1, 'permits', 'acquired_at', 'timestamp with time zone'),
  (1, 'permits', 'expires_at', 'timestamp with time zone not null'),
  (1, 'permits', 'hard_until', 'timestamp with time zone'),
  (1, 'permits', 'revoked', 'boolean not null'),
  (1, 'permits', 'note', 'text not null'),
  (1, 'permits', 'longest', 'bigint'),
  (1, 'permits', 'longest_term', 'text'),
  (1, 'permits', 'units', 'bigint not null'),
  (1, 'permits', 'told', 'bigint not null'),
  (1, 'quorum', 'id', 'integer not null primary key'),
  (1, 'quorum', 'quorum_id', 'text'),
  (1, 'quorum', 'epoch', 'bigint not null'),
  (1, 'quorum', 'epoch_id', 'text'),
  (1, 'quorum', 'members', 'text not null'),
  (1, 'quorum', 'max_ttl', 'bigint not null'),
  (1, 'quorum', 'votes', 'boolean not null'),
  (1, 'admitted', 'name', 'text not null primary key'),
  (1, 'admitted', 'token', 'bigint not null'),
  (2, 'reach', 'ttl', 'bigint not null'),
  (2, 'reach', 'until', 'timestamp with time zone not null'),
  (2, 'reach', 'base', 'bigint not null'),
  (2, 'pulse', 'safe_from', 'timestamp with time zone not null in an unlogged table'),
  (2, 'pulse', 'reach', 'bigint not null'),
  (2, 'pulse', 'until', 'timestamp with time zone not null'),
  (2, 'pulse', 'begun', 'timestamp with time zone not null'),
  (2, 'pulse', 'base', 'bigint not null'),
  (2, 'pulse', 'made_by', 'xid not null'),
  (2, 'pulse', 'made_at', 'text not null'),
  (2, 'quarantine', 'id', 'integer not null primary key'),
  (2, 'quarantine', 'enabled', 'boolean not null'),
  (2, 'quarantine', 'frozen_until', 'timestamp with time zone')
) AS e(since, in_table, column_name, definition)
WHERE e.since <= $1::bigint

-- name: migrate_records
SELECT version::bigint, name, checksum, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM rowlock_migrations ORDER BY version

-- name: migrate_record
INSERT INTO rowlock_migrations AS m (version, name, checksum) VALUES ($1::bigint, $2, $3)
ON CONFLICT (version) DO UPDATE SET name = $2, checksum = $3

-- Forgets version $1 and what came after it.
-- name: migrate_forget
DELETE FROM rowlock_migrations WHERE version >= $1::bigint

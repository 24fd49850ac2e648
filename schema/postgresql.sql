-- rowlock's tables for PostgreSQL 13 and later, as `rowlock migrate up` leaves them: to read, or to apply where no
-- migration tool is wanted (`psql -1 -v ON_ERROR_STOP=1 -f postgresql.sql`). `rowlock migrate` recognizes tables that
-- were made so. `rowlock migrate sql` prints the same with another table prefix or schema.

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE rowlock_meta (
  id             integer PRIMARY KEY CHECK (id = 1),
  database_id    text    NOT NULL,            -- random; tells this set of tables from every other
  schema_version integer NOT NULL,            -- the migration that was applied last, by whatever tool
  oldest_reader  integer NOT NULL,            -- programs made for an older schema version must not use these tables
  token_floor    bigint  NOT NULL             -- no token at or below it is drawn for a name without a row
);
INSERT INTO rowlock_meta VALUES (1, replace(gen_random_uuid()::text, '-', ''), 3, 1, 0);

-- What `rowlock migrate` did: for people, and to notice texts that differ. What is there is said by rowlock_meta.
CREATE TABLE rowlock_migrations (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,            -- of migrations/postgresql/NNN_name.up.sql
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each name that was ever taken, until it is reaped. Whether a name may be taken is decided by its own row
-- alone: term is null, or expires_at has passed by the database's clock.
--
-- No index but the primary key: one on expires_at or owner would cost every update its HOT path. COLLATE "C": names are
-- compared byte for byte. fillfactor 50: room for HOT updates.
CREATE TABLE rowlock_locks (
  name          text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      text        NOT NULL,         -- lease, unique_insert, row_lock: one name, one strategy
  term          text,                         -- random id of the present hold; null: free
  token         bigint      NOT NULL,         -- fencing token of the latest term; 0: no term yet
  owner_host    text,                         -- host and pid are for people,
  owner_pid     bigint,
  owner_process text,                         -- process (a random id, or an explicit owner's text) and thread decide
  owner_thread  bigint,                       -- 0: explicit owner
  renewals      bigint      NOT NULL DEFAULT 0,
  ttl           bigint      NOT NULL DEFAULT 0,        -- milliseconds that a renewal is for
  takeover      text        NOT NULL DEFAULT 'clock',  -- clock, observed
  acquired_at   timestamptz,
  expires_at    timestamptz NOT NULL,         -- of a free row: since when it is free
  hard_until    timestamptz,                  -- null, or the end that renewal can't pass
  revoked       boolean     NOT NULL DEFAULT false,    -- an operator asked for it back
  note          text        NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

-- The latest token of names whose lock row does not outlive the term.
CREATE TABLE rowlock_tokens (
  name  text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token bigint NOT NULL
) WITH (fillfactor = 50);

-- One row: what the reaper did last, for people.
CREATE TABLE rowlock_reaper (
  id          integer     PRIMARY KEY CHECK (id = 1),
  started_at  timestamptz,                    -- null: it never ran
  finished_at timestamptz,
  host        text,
  pid         bigint,
  report      text                            -- JSON
);
INSERT INTO rowlock_reaper (id) VALUES (1);

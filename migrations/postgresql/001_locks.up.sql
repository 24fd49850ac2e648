-- One row: what belongs to this set of tables as a whole.
CREATE TABLE rowlock_meta (
  id             integer PRIMARY KEY CHECK (id = 1),
  database_id    text    NOT NULL,            -- random; tells this set of tables from every other
  schema_version integer NOT NULL,            -- the migration that was applied last, by whatever tool
  oldest_reader  integer NOT NULL,            -- programs made for an older schema version must not use these tables
  token_floor    bigint  NOT NULL             -- no token at or below it is drawn for a name without a row
);
INSERT INTO rowlock_meta VALUES (1, replace(gen_random_uuid()::text, '-', ''), 1, 1, 0);

-- What `rowlock migrate` did. Empty when another tool applied these files.
CREATE TABLE rowlock_migrations (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- No index but the primary key: one on expires_at or owner would cost every update its HOT path. COLLATE "C":
-- names are compared byte for byte. fillfactor 50: room for HOT updates.
CREATE TABLE rowlock_locks (
  name          text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      text        NOT NULL,
  term          text,                         -- null: free
  token         bigint      NOT NULL,         -- of the latest term; 0: no term yet
  owner_host    text,
  owner_pid     bigint,
  owner_process text,
  owner_thread  bigint,
  renewals      bigint      NOT NULL DEFAULT 0,
  ttl           bigint      NOT NULL DEFAULT 0,  -- milliseconds
  takeover      text        NOT NULL DEFAULT 'clock',
  acquired_at   timestamptz,
  expires_at    timestamptz NOT NULL,         -- of a free row: since when it is free
  hard_until    timestamptz,                  -- null, or the end that renewal can't pass
  revoked       boolean     NOT NULL DEFAULT false,
  note          text        NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

-- Locks that several may hold at a time (strategies shared and semaphore): lib/doc/permits.md. One row for each permit that is
-- held, with the columns of rowlock_locks, and two of its own. The primary key finds all permits of a name.
CREATE TABLE rowlock_permits (
  name          text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
  strategy      text        NOT NULL,
  term          text COLLATE "C" NOT NULL,
  token         bigint      NOT NULL,
  owner_host    text,
  owner_pid     bigint,
  owner_process text,
  owner_thread  bigint,
  renewals      bigint      NOT NULL DEFAULT 0,
  ttl           bigint      NOT NULL DEFAULT 0,  -- milliseconds
  takeover      text        NOT NULL DEFAULT 'clock',
  acquired_at   timestamptz,
  expires_at    timestamptz NOT NULL,
  hard_until    timestamptz,
  revoked       boolean     NOT NULL DEFAULT false,
  note          text        NOT NULL DEFAULT '',
  longest       bigint,
  longest_term  text,
  units         bigint      NOT NULL CHECK (units > 0),
  told          bigint      NOT NULL,         -- the limit that its taker was told
  PRIMARY KEY (name, term)
) WITH (fillfactor = 50);

-- Of the anchor, the name's row in rowlock_locks: the limit for all who name none, and what the head of the line waits for.
-- Without a default, so that no row is rewritten.
ALTER TABLE rowlock_locks ADD COLUMN permit_limit bigint, ADD COLUMN intent_units bigint, ADD COLUMN intent_term text,
  ADD COLUMN intent_until timestamptz;
UPDATE rowlock_meta SET schema_version = 6;

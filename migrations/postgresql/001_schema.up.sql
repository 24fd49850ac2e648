-- rowlock's tables and functions for PostgreSQL 13 and later: to read, or to apply where no migration tool is wanted
-- (`psql -1 -v ON_ERROR_STOP=1 -f 001_schema.up.sql`). `rowlock migrate` recognizes tables that were made so.
-- `rowlock migrate sql` prints the same with another table prefix or schema.

-- One row: what belongs to this set of tables as a whole.
CREATE TABLE rowlock_meta (
  id             integer PRIMARY KEY CHECK (id = 1),
  database_id    text    NOT NULL,            -- random; tells this set of tables from every other
  schema_version integer NOT NULL,            -- the migration that was applied last, by whatever tool
  oldest_reader  integer NOT NULL,            -- programs made for an older schema version must not use these tables
  token_floor    bigint  NOT NULL             -- no token at or below it is drawn for a name without a row
);
INSERT INTO rowlock_meta VALUES (1, replace(gen_random_uuid()::text, '-', ''), 1, 1, 0);

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
-- A name that has been taken 128 times gets two rows, so that it stays fast beside an old snapshot (a dump, a report, a forgotten
-- transaction), which keeps every dead version of a row: the first row, generation 0, is not used any more. It keeps the
-- name, so that no INSERT can make a second lock of it: term 'name', expires_at in the year 9999. The row with the highest
-- generation is the lock, and moves on to the next generation with every 128th take. Whoever looks for the newest generation
-- meets the dead versions of that one alone. lib/doc/postgresql.md says more.
--
-- No index but the primary key: one on expires_at or owner would cost every update its HOT path. COLLATE "C": names are
-- compared byte for byte. fillfactor 50: room for HOT updates.
CREATE TABLE rowlock_locks (
  name          text COLLATE "C" CHECK (octet_length(name) BETWEEN 1 AND 255),
  generation    bigint      NOT NULL DEFAULT 0,
  takes         bigint      NOT NULL DEFAULT 0,        -- of this row; for the generation alone
  strategy      text        NOT NULL,         -- lease, unique_insert, row_lock, shared, semaphore: one name, one
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
  note          text        NOT NULL DEFAULT '',
  longest       bigint,                       -- milliseconds that this term can last at most from a change on, and
  longest_term  text,                         -- whose, also when that is gone; another than term: plain SQL of others took the row
  permit_limit  bigint,                       -- strategy semaphore: the limit for all who name none
  counted_from  bigint      NOT NULL DEFAULT 0,        -- shared, semaphore: each permit has a token from this one on,
  counted_too   bigint[],                     -- or one of these
  intent_units  bigint,                       -- shared, semaphore: what the first in line waits for,
  intent_term   text,                         -- under which id,
  intent_until  timestamptz,                  -- and until when nobody else takes it
  PRIMARY KEY (name, generation)
) WITH (fillfactor = 50);

-- The latest token of names whose lock row does not outlive the term. As in rowlock_locks, the row with the highest generation
-- counts, each 128th draw moves it on, and a row of generation 0 keeps the name.
CREATE TABLE rowlock_tokens (
  name       text COLLATE "C" CHECK (octet_length(name) BETWEEN 1 AND 255),
  generation bigint NOT NULL DEFAULT 0,
  draws      bigint NOT NULL DEFAULT 0,
  token      bigint NOT NULL,
  PRIMARY KEY (name, generation)
) WITH (fillfactor = 50);

-- One row for each permit that is held: locks that several may hold at a time (strategies shared and semaphore). Its columns are
-- those of rowlock_locks, and two of its own. The name's row in rowlock_locks is the anchor, whose row lock orders those who count.
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
-- To count the permits of a name without the dead ones. By an expression: who looks for a term can't take this index for it, and who
-- counts can't take the other one.
CREATE INDEX ON rowlock_permits ((name || ''), token);

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

-- Locks that several databases grant by majority (strategy quorum): lib/doc/quorum.md. One row: of which quorum this database is a
-- member, in which epoch, and whether it votes. Without a quorum it has no ids.
CREATE TABLE rowlock_quorum (
  id        integer PRIMARY KEY CHECK (id = 1),
  quorum_id text,
  epoch     bigint  NOT NULL DEFAULT 0,
  epoch_id  text,
  members   text    NOT NULL DEFAULT '',
  max_ttl   bigint  NOT NULL DEFAULT 0,       -- milliseconds
  votes     boolean NOT NULL DEFAULT false
);
INSERT INTO rowlock_quorum (id) VALUES (1);

-- For transaction::admit() and rowlock_admit(): the highest token of such a lock that was admitted here.
CREATE TABLE rowlock_admitted (
  name  text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
  token bigint NOT NULL
) WITH (fillfactor = 50);

-- The wait for a name's queue (lib/doc/waiting.md): 0 if its turn did not come in $3 milliseconds, 1 if the queue was free, 2 in its
-- turn. $2 marks the session for lock_waiters. Its key has the negated oid, and it is shared: it excludes no session.
-- A block with a handler, because outside one a wait that ends by lock_timeout writes two lines to the server's log. The time-out can
-- come although the lock was granted (T9): so the handler gives up every lock, and a session has one queue at most.
-- A function, because the same as a DO block, which is compiled each time, halves the hand-overs.
CREATE FUNCTION rowlock_enter_queue(name text, mark text, longest bigint) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  place CONSTANT bigint := 'rowlock_locks'::regclass::oid::bigint;
  queue CONSTANT bigint := hashtextextended($1, place);
BEGIN
  IF pg_try_advisory_lock_shared(hashtextextended($2, -place)) AND pg_try_advisory_lock(queue) THEN
    RETURN 1;
  END IF;
  PERFORM set_config('lock_timeout', $3::text, true), pg_advisory_lock(queue);
  RETURN 2;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
  PERFORM pg_advisory_unlock_all();
  RETURN 0;
END $$;

-- For SQL without C++: functions that take, renew, guard and give back a lock of strategy lease, with the same row and the same
-- conditions as the library (lib/sql/postgresql/lock.sql), so that a program in any language, or a trigger, shares locks
-- with programs that use it. They run with the rights of whoever calls them, on the tables that are beside them now
-- (the DO block below): whatever the caller's search path is. lib/doc/functions.md says what interleaves.
--
-- Any of them may be called in autocommit or in a transaction: what it does is in force with COMMIT, and undone by ROLLBACK.
-- Until then the row is locked, which is busy for all others. A row that is locked is waited for for a second at most
-- (lock_timeout), and no lock on somebody else's row is kept, which would keep its holder from renewing: hence the
-- sub-transactions, which RL000 rolls back. The time is clock_timestamp(), never now().
--
-- No plan that was made while a table was small may read all of it later, when an old snapshot has made it large: so they plan
-- for an index.

-- Above which all tokens are that are drawn now, of leases of so many milliseconds; null: none is granted now. Version 2 makes it
-- what it says.
CREATE FUNCTION rowlock_granting(ttl bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  RETURN 0;
END $$;

-- Since when the database is sure of what it has granted. A lease from before that has expired may have been lost, and come back by
-- a failover: it is renewed and required no more. Version 2 makes it what it says.
CREATE FUNCTION rowlock_begun() RETURNS timestamptz
LANGUAGE plpgsql AS $$
BEGIN
  RETURN '-infinity';
END $$;

-- One row (term, token), or no row: busy. STABLE, so that what it reads itself is what the *calling* statement sees: in
--   SELECT t.term, (SELECT count FROM stock) FROM rowlock_try_acquire('stock', '1 min') AS t
-- the count is read with a snapshot that is older than the lock. A row that was changed since (the lock was given back
-- after the statement began) is busy: as of this statement's snapshot it was held, and the next statement can have it.
-- So is one that expired after the transaction began (now() is the one time that is certainly older than the snapshot).
-- rowlock_take_seen compares the row's version. An xid that is compared with pg_snapshot would not do: that lists no
-- subtransactions, so that a change in a savepoint looks committed while it is not.
CREATE FUNCTION rowlock_try_acquire(name text, ttl interval, note text DEFAULT '')
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql STABLE ROWS 1
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  version xid;
  highest bigint;
BEGIN
  SELECT l.xmin INTO version FROM rowlock_locks AS l
  WHERE l.name = $1
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  -- Of a name without a row: what the reaper, or another strategy, would have raised since.
  SELECT greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1))
  INTO highest FROM rowlock_meta AS m WHERE m.id = 1;
  RETURN QUERY SELECT t.term, t.token FROM rowlock_take_seen($1, $2, $3, version, highest) AS t;
END $$;

-- For rowlock_try_acquire alone. `version`: of the row as the calling statement sees it, null if it sees none; `highest`: the
-- token floor, or the name's own token. Each statement in here has a snapshot of its own (READ COMMITTED is demanded).
-- First a plain read, so that a busy lock costs no write. Then FOR UPDATE SKIP LOCKED: of two takers the second skips the row
-- and is refused at once. What it locks is the row's newest version, with the condition looked at again; the UPDATE
-- behind it waits for nobody, and its snapshot, which is younger than the row's lock, also sees the raised floor if the reaper
-- deleted the name's former row. owner_thread -1: no thread and no explicit owner of the library is ever the same.
CREATE FUNCTION rowlock_take_seen(name text, ttl interval, note text, version xid, highest bigint)
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql ROWS 1 SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  wanted CONSTANT text := $1;
  duration CONSTANT interval := make_interval(secs => extract(epoch FROM $2)::double precision);  -- a month: 30 days
  remark CONSTANT text := coalesce($3, '');
  fresh CONSTANT text := replace(gen_random_uuid()::text, '-', '');
  seen xid := $4;
  other text;
  takeable boolean;
  unchanged boolean;
  early boolean;
  kept boolean;
  base bigint;
BEGIN
  IF wanted IS NULL OR octet_length(wanted) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'a lock''s name must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF duration IS NULL OR duration < interval '100 milliseconds' OR duration > interval '366 days' THEN
    RAISE EXCEPTION 'a ttl of % is out of range: 100 ms to 366 days', duration USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF octet_length(remark) > 1024 THEN
    RAISE EXCEPTION 'the note is longer than 1024 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'a lock can''t be taken at isolation level %', current_setting('transaction_isolation')
      USING ERRCODE = 'feature_not_supported',
            HINT = 'The section would read what was there before the lock. Take it in a transaction at READ COMMITTED.';
  END IF;
  base := rowlock_granting((extract(epoch FROM duration) * 1000)::bigint);
  IF base IS NULL THEN
    RETURN;
  END IF;
  -- A second round for a row that was absent.
  FOR round IN 1..2 LOOP
    SELECT l.strategy, l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()), l.xmin = seen,
      l.term IS NULL OR l.expires_at <= now(), l.term = 'name'
    INTO other, takeable, unchanged, early, kept
    FROM rowlock_locks AS l
    WHERE l.name = wanted
      AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1);
    IF other <> 'lease' THEN
      RAISE EXCEPTION 'the lock ''%'' is used with strategy %, not lease', wanted, other USING ERRCODE = 'RL002';
    END IF;
    IF other IS NULL OR kept THEN  -- no row, or only the one that keeps the name
      IF (CASE WHEN kept THEN unchanged IS NOT TRUE ELSE seen IS NOT NULL END) THEN
        RETURN;  -- reaped since; or somebody has had it since
      END IF;
      BEGIN
        -- As lock_insert_free. Who puts no row there keeps no lock on the row that keeps the name.
        WITH kept AS (
          UPDATE rowlock_locks AS l SET acquired_at = clock_timestamp(), takes = l.takes + 1
          WHERE l.name = wanted AND l.generation = 0 AND l.term = 'name' AND l.strategy = 'lease' AND l.xmin = seen
            AND l.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = wanted AND o.generation = 0)
            AND (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1) = 0
          RETURNING greatest(l.token, (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)) AS token)
        INSERT INTO rowlock_locks AS l (name, generation, strategy, token, expires_at)
        SELECT wanted, CASE WHEN kept.token IS NULL THEN 0 ELSE 1 END, 'lease', coalesce(kept.token, 0), clock_timestamp()
        FROM (SELECT 1) AS one LEFT JOIN kept ON true
        ON CONFLICT DO NOTHING
        RETURNING l.xmin INTO seen;
        IF NOT FOUND THEN
          RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of the row that keeps the name';
        END IF;
      EXCEPTION
        WHEN SQLSTATE 'RL000' THEN seen := NULL;
        WHEN lock_not_available OR deadlock_detected THEN
          RETURN;  -- a transaction has put the row there, and is still open
      END;
      IF seen IS NULL THEN
        CONTINUE;  -- somebody else has put it there just now
      END IF;
      -- Now nobody else can have the name. Whoever had it since the calling statement began has left a trace.
      PERFORM FROM rowlock_meta AS m
      WHERE m.id = 1 AND greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = wanted ORDER BY t.generation DESC LIMIT 1))
        IS DISTINCT FROM $5;
      IF FOUND THEN
        RETURN;
      END IF;
      CONTINUE;
    END IF;
    IF NOT takeable OR unchanged IS NOT TRUE THEN
      RETURN;
    END IF;
    BEGIN
      PERFORM FROM rowlock_locks AS l
      WHERE l.name = wanted AND l.strategy = 'lease'
        AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1)
        AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
        AND l.xmin = seen
      FOR UPDATE SKIP LOCKED;
      IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that somebody else has taken meanwhile';
      END IF;
      -- What expired after this transaction began may have been written to after the calling statement's snapshot was made:
      -- now it is freed, and the next statement, which sees that, can have it.
      IF NOT early THEN
        UPDATE rowlock_locks AS l SET term = NULL, expires_at = clock_timestamp()
        WHERE l.name = wanted AND l.xmin = seen
          AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1);
        RETURN;
      END IF;
      RETURN QUERY UPDATE rowlock_locks AS l SET
        term = fresh,
        token = greatest(
          l.token + 1,
          base + 1,
          (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
          CASE WHEN l.token = 0 THEN (
            SELECT 1 + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = wanted ORDER BY t.generation DESC LIMIT 1))
            FROM rowlock_meta AS m WHERE m.id = 1) END),
        owner_host = coalesce(host(inet_client_addr()), 'local'),
        owner_pid = pg_backend_pid(),
        owner_process = replace(gen_random_uuid()::text, '-', ''),
        owner_thread = -1,
        renewals = 0,
        ttl = (extract(epoch FROM duration) * 1000)::bigint,
        takeover = 'clock',
        acquired_at = clock_timestamp(),
        expires_at = clock_timestamp() + duration,
        hard_until = NULL,
        revoked = false,
        note = remark,
        longest = (extract(epoch FROM duration) * 1000)::bigint,
        longest_term = fresh,
        takes = l.takes + 1,
        generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END
      WHERE l.name = wanted AND l.strategy = 'lease'
        AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1)
        AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
        AND l.xmin = seen
      RETURNING l.term, l.token;
      IF FOUND THEN
        RETURN;
      END IF;
      RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that can''t be taken any more';
    EXCEPTION WHEN SQLSTATE 'RL000' THEN
      RETURN;
    END;
  END LOOP;
  -- Perhaps a row that is there, and can neither be seen nor put there.
  IF row_security_active('rowlock_locks'::regclass) THEN
    RAISE EXCEPTION 'the lock ''%'' can''t be taken: row-level security hides rows from this role', wanted
      USING ERRCODE = 'insufficient_privilege', HINT = 'Give the role a policy FOR ALL USING (true).';
  END IF;
END $$;

-- True: renewed by the ttl it was taken with. False: lost (or revoked, or at its hard limit: it ends at its expiry). Null: a
-- transaction has had the row locked for a second; not lost by that, ask again. By name and term alone, never shortens,
-- never passes the hard limit, never prolongs a revoked row. If the row was taken over while this waited for it, the
-- UPDATE has locked the new owner's row: RL000 lets go of it.
CREATE FUNCTION rowlock_renew(name text, term text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  UPDATE rowlock_locks AS l SET
    expires_at = greatest(l.expires_at, least(clock_timestamp() + l.ttl * interval '1 millisecond', l.hard_until)),
    renewals = l.renewals + 1
  WHERE l.name = $1 AND l.term = $2 AND NOT l.revoked AND (l.hard_until IS NULL OR l.hard_until > clock_timestamp())
    AND (l.expires_at > clock_timestamp() OR l.acquired_at >= rowlock_begun())
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  IF FOUND THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that is another term''s';
EXCEPTION
  WHEN SQLSTATE 'RL000' THEN RETURN false;
  WHEN lock_not_available OR deadlock_detected THEN RETURN NULL;
END $$;

-- True: given back. False: it was not held any more, nothing was done. Null: as for rowlock_renew; it ends by its expiry, or ask
-- again. A row of unique_insert is given back by DELETE, not by this. Not asynchronous as the library's: the commit
-- is the caller's.
CREATE FUNCTION rowlock_release(name text, term text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  -- After 128 takes the row only keeps the name, as in lock_release.
  UPDATE rowlock_locks AS l SET
    term = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN 'name' END,
    expires_at = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN timestamptz '9999-12-31 00:00:00+00' ELSE clock_timestamp() END
  WHERE l.name = $1 AND l.term = $2 AND l.strategy = 'lease'
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  IF FOUND THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that is another term''s';
EXCEPTION
  WHEN SQLSTATE 'RL000' THEN RETURN false;
  WHEN lock_not_available OR deadlock_detected THEN RETURN NULL;
END $$;

-- In the transaction that writes what the lock protects: renews, so that a takeover waits for the transaction's end; or fails
-- with RL001, and the transaction with it. To be called after the last ROLLBACK TO SAVEPOINT. In a transaction above
-- READ COMMITTED whose snapshot is older than the row: 40001, to be tried again from the start. A row that another
-- transaction guards: 55P03 after a second.
CREATE FUNCTION rowlock_require(name text, term text) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  UPDATE rowlock_locks AS l SET
    expires_at = greatest(l.expires_at, least(clock_timestamp() + l.ttl * interval '1 millisecond', l.hard_until)),
    renewals = l.renewals + 1
  WHERE l.name = $1 AND l.term = $2 AND NOT l.revoked AND (l.hard_until IS NULL OR l.hard_until > clock_timestamp())
    AND (l.expires_at > clock_timestamp() OR l.acquired_at >= rowlock_begun())
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the lock ''%'' is lost', $1
      USING ERRCODE = 'RL001', HINT = 'It has expired and was taken over, was given back, or was revoked. Roll back.';
  END IF;
END $$;

-- For SQL without C++: permits (strategies shared and semaphore) and "once", with the same rows and the same conditions as the
-- library (lib/sql/postgresql/permits.sql and once.sql).

-- For the three takes below. STABLE, as rowlock_try_acquire, so that what it reads is what the *calling* statement sees: what
-- that one reads must not be older than the permit. It hands on what it has seen of the name: the anchor's version, the units
-- that were taken, who had some (100 at most), and those that had expired (1000 at most), with their versions.
CREATE FUNCTION rowlock_permit_seen(name text, kind text, units bigint, told bigint, ttl interval, note text)
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql STABLE ROWS 1
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  version xid;
  highest bigint;
  first bigint;
  too bigint[];
  counted bigint;
  others text[];
  late text[];
  late_versions xid[];
BEGIN
  SELECT l.xmin, l.counted_from, l.counted_too INTO version, first, too
  FROM rowlock_locks AS l
  WHERE l.name = $1
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  first := coalesce(first, 0);
  -- Of a name without a row: what the reaper, or another strategy, would have raised since.
  SELECT greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1))
  INTO highest FROM rowlock_meta AS m WHERE m.id = 1;
  WITH there AS (
    SELECT p.xmin AS version, p.* FROM rowlock_permits AS p WHERE p.name || '' = $1 AND p.token >= first
    UNION ALL
    SELECT p.* FROM unnest(too) AS t(token),
      LATERAL (SELECT o.xmin AS version, o.* FROM rowlock_permits AS o WHERE o.name || '' = $1 AND o.token = t.token OFFSET 0) AS p),
  expired AS (
    SELECT p.term, p.version FROM there AS p
    WHERE p.takeover = 'clock' AND p.expires_at <= clock_timestamp()
    ORDER BY p.term LIMIT 1000)
  SELECT
    (SELECT coalesce(sum(p.units), 0)::bigint FROM there AS p),
    ARRAY(SELECT p.term FROM there AS p ORDER BY p.token DESC LIMIT 100),
    (SELECT array_agg(o.term) FROM expired AS o),
    (SELECT array_agg(o.version) FROM expired AS o)
  INTO counted, others, late, late_versions;
  RETURN QUERY SELECT t.term, t.token
    FROM rowlock_take_permit($1, $2, $3, $4, $5, $6, version, highest, counted, others, late, late_versions) AS t;
END $$;

-- For rowlock_permit_seen alone. Each statement in here has a snapshot of its own (READ COMMITTED is demanded). Who comes in
-- between:
-- Two takers: the second waits for the anchor, a second at most; what it counts afterwards, in statements that begin after the lock
--   was got, has the first one's permit (C43). If the first one's transaction goes on, the second is refused: busy.
-- A release that is not committed: its units count still. A renewal or a guard: changes no units, and not the anchor.
-- A holder whose permit has expired, and who is late: its permit counts until it is deleted, by name and term, and not while its
--   holder has it locked (C42). It is deleted before the anchor is locked, and waits for nobody.
-- Somebody has had the name after the calling statement began, and is gone: what that statement reads is older than that. Each take
--   changes the anchor. So the anchor's version must be the one that was seen, and what was seen must leave room, too: except
--   for what had expired before this transaction began, and is deleted here in the very version that was seen. Or others, who
--   were seen, have had as many units as are wanted here all the time: beside them nobody can have been that is kept out by
--   this permit (for a reader: another reader. It kept writers away.)
-- Whoever is refused keeps no lock: RL000 rolls the sub-transaction back.
CREATE FUNCTION rowlock_take_permit(name text, kind text, units bigint, told bigint, ttl interval, note text, version xid,
  highest bigint, counted bigint, others text[], late text[], late_versions xid[])
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql ROWS 1 SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  wanted CONSTANT text := $1;
  strategy_of CONSTANT text := $2;
  many CONSTANT bigint := $3;
  own_limit CONSTANT bigint := $4;
  duration CONSTANT interval := make_interval(secs => extract(epoch FROM $5)::double precision);  -- a month: 30 days
  remark CONSTANT text := coalesce($6, '');
  highest_limit CONSTANT bigint := CASE $2 WHEN 'shared' THEN 2147483647 ELSE 2147483646 END;
  fresh CONSTANT text := replace(gen_random_uuid()::text, '-', '');
  seen xid := $7;
  other text;
  kept boolean;
  first bigint;
  too bigint[];
  most bigint;
  room boolean;
  room_for_late boolean;
  current boolean;
  freed bigint := 0;
  drawn bigint;
  base bigint;
  locked boolean := false;
BEGIN
  IF wanted IS NULL OR octet_length(wanted) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'a lock''s name must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF duration IS NULL OR duration < interval '100 milliseconds' OR duration > interval '366 days' THEN
    RAISE EXCEPTION 'a ttl of % is out of range: 100 ms to 366 days', duration USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF octet_length(remark) > 1024 THEN
    RAISE EXCEPTION 'the note is longer than 1024 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF own_limit NOT BETWEEN 1 AND highest_limit THEN
    RAISE EXCEPTION 'a limit of %: 1 to %', own_limit, highest_limit USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'a permit can''t be taken at isolation level %', current_setting('transaction_isolation')
      USING ERRCODE = 'feature_not_supported',
            HINT = 'The section would read what was there before the permit. Take it in a transaction at READ COMMITTED.';
  END IF;
  -- What row-level security hides would not be counted. (The calling statement has read the table: no policy changes before the
  -- end of this transaction.)
  IF row_security_active('rowlock_permits'::regclass) AND (
    EXISTS (SELECT FROM pg_policy AS o WHERE o.polrelid = 'rowlock_permits'::regclass AND NOT o.polpermissive)
    OR NOT EXISTS (SELECT FROM pg_policy AS o WHERE o.polrelid = 'rowlock_permits'::regclass AND o.polpermissive
      AND o.polcmd = '*' AND pg_get_expr(o.polqual, o.polrelid) = 'true'
      AND coalesce(pg_get_expr(o.polwithcheck, o.polrelid), 'true') = 'true'
      AND EXISTS (SELECT FROM unnest(o.polroles) AS r WHERE r = 0 OR pg_has_role(r, 'usage')))) THEN
    RAISE EXCEPTION 'a permit of ''%'' can''t be taken: row-level security may hide others'' permits from this role', wanted
      USING ERRCODE = 'insufficient_privilege', HINT = 'Give the role a policy FOR ALL USING (true).';
  END IF;
  base := rowlock_granting((extract(epoch FROM duration) * 1000)::bigint);
  IF base IS NULL THEN
    RETURN;
  END IF;
  SELECT l.strategy, l.permit_limit, l.term IS NOT DISTINCT FROM 'name', l.counted_from, l.counted_too
  INTO other, most, kept, first, too
  FROM rowlock_locks AS l
  WHERE l.name = wanted
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1);
  first := coalesce(first, 0);
  IF FOUND AND other <> strategy_of THEN
    RAISE EXCEPTION 'the lock ''%'' is used with strategy %, not %', wanted, other, strategy_of USING ERRCODE = 'RL002';
  END IF;
  most := coalesce(own_limit, most);
  IF most IS NULL THEN
    RAISE EXCEPTION '''%'' has no limit: name one, or set one with semaphore::set_limit()', wanted
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF many IS NULL OR many NOT BETWEEN 1 AND most THEN
    RAISE EXCEPTION '''%'': % units can''t be taken: 1 to %, which is the limit', wanted, many, most
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF other IS NULL OR kept THEN  -- no row, or only the one that keeps the name
    IF other IS NULL AND seen IS NOT NULL THEN
      RETURN;  -- reaped since
    END IF;
    BEGIN
      -- As lock_insert_free.
      WITH kept AS (
        UPDATE rowlock_locks AS l SET acquired_at = clock_timestamp(), takes = l.takes + 1
        WHERE l.name = wanted AND l.generation = 0 AND l.term = 'name' AND l.strategy = strategy_of AND l.xmin = seen
          AND l.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = wanted AND o.generation = 0)
          AND (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1) = 0
        RETURNING greatest(l.token, (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)) AS token, l.permit_limit,
          l.counted_from, l.counted_too)
      INSERT INTO rowlock_locks AS l (name, generation, strategy, token, expires_at, permit_limit, counted_from, counted_too)
      SELECT wanted, CASE WHEN kept.token IS NULL THEN 0 ELSE 1 END, strategy_of, coalesce(kept.token, 0), clock_timestamp(),
        kept.permit_limit, coalesce(kept.counted_from, 0), kept.counted_too
      FROM (SELECT 1) AS one LEFT JOIN kept ON true
      ON CONFLICT DO NOTHING
      RETURNING l.xmin INTO seen;
      IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of the row that keeps the name';
      END IF;
    EXCEPTION
      WHEN SQLSTATE 'RL000' THEN seen := NULL;
      WHEN lock_not_available OR deadlock_detected THEN
        RETURN;  -- a transaction has put the row there, and is still open
    END;
    IF seen IS NULL THEN  -- somebody else has put it there just now; or it can neither be seen nor put there
      PERFORM FROM rowlock_locks AS l WHERE l.name = wanted;
      IF NOT FOUND AND row_security_active('rowlock_locks'::regclass) THEN
        RAISE EXCEPTION 'the lock ''%'' can''t be taken: row-level security hides rows from this role', wanted
          USING ERRCODE = 'insufficient_privilege', HINT = 'Give the role a policy FOR ALL USING (true).';
      END IF;
      RETURN;
    END IF;
    -- Nobody else can have the name now. Whoever had it since the calling statement began has left a trace.
    PERFORM FROM rowlock_meta AS m
    WHERE m.id = 1 AND greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = wanted ORDER BY t.generation DESC LIMIT 1))
      IS DISTINCT FROM $8;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  -- Plain reads: what is busy costs no lock. Only what would fit without those that have expired is worth deleting them.
  SELECT many + coalesce(sum(p.units) FILTER (WHERE p.takeover <> 'clock' OR p.expires_at > clock_timestamp()), 0) <= most,
    many + coalesce(sum(p.units), 0) <= most
  INTO room, room_for_late
  FROM (
    SELECT q.units, q.takeover, q.expires_at FROM rowlock_permits AS q WHERE q.name || '' = wanted AND q.token >= first
    UNION ALL
    SELECT q.units, q.takeover, q.expires_at FROM unnest(too) AS t(token),
      LATERAL (SELECT o.* FROM rowlock_permits AS o WHERE o.name || '' = wanted AND o.token = t.token OFFSET 0) AS q) AS p;
  IF NOT room THEN
    RETURN;
  END IF;
  IF NOT room_for_late THEN
    WITH due AS (
      SELECT p.name, p.term
      FROM unnest($11, $12) AS w(term, version)
      JOIN rowlock_permits AS p ON p.name = wanted AND p.term = w.term AND p.xmin = w.version
      WHERE p.takeover = 'clock' AND p.expires_at <= clock_timestamp()
      ORDER BY p.term
      FOR UPDATE OF p SKIP LOCKED),
    gone AS (
      DELETE FROM rowlock_permits AS p USING due
      WHERE p.name = due.name AND p.term = due.term AND p.expires_at <= clock_timestamp()
      RETURNING p.units, p.expires_at)
    SELECT coalesce(sum(g.units), 0)::bigint INTO freed FROM gone AS g WHERE g.expires_at <= now();
  END IF;
  BEGIN
    -- A second round for an anchor that has moved on while this waited.
    FOR round IN 1..2 LOOP
      PERFORM FROM rowlock_locks AS l
      WHERE l.name = wanted AND l.strategy = strategy_of AND l.term IS DISTINCT FROM 'name'
        AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1)
      FOR UPDATE;
      locked := FOUND;  -- the loop's end sets FOUND
      EXIT WHEN locked;
    END LOOP;
    IF NOT locked THEN
      RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'the row was reaped meanwhile';
    END IF;
    -- A statement of its own, which begins after the lock was got. An intent is what the first in line waits for; one that ends
    -- more than 2 s ahead is none (C44).
    SELECT many + coalesce(sum(p.units), 0)
        + CASE WHEN l.intent_until > clock_timestamp() AND l.intent_until <= clock_timestamp() + interval '2 seconds'
            THEN coalesce(l.intent_units, 0) ELSE 0 END
        <= coalesce(own_limit, l.permit_limit),
      (l.xmin = seen AND many + $9 - freed <= coalesce(own_limit, l.permit_limit))
        OR coalesce(sum(p.units) FILTER (WHERE p.term = ANY ($10)), 0) >= many
    INTO room, current
    FROM rowlock_locks AS l
    LEFT JOIN LATERAL (
      SELECT q.term, q.units FROM rowlock_permits AS q WHERE q.name || '' = wanted AND q.token >= l.counted_from
      UNION ALL
      SELECT q.term, q.units FROM unnest(l.counted_too) AS t(token),
        LATERAL (SELECT o.* FROM rowlock_permits AS o WHERE o.name || '' = wanted AND o.token = t.token OFFSET 0) AS q) AS p ON true
    WHERE l.name = wanted
      AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1)
    GROUP BY l.xmin, l.intent_until, l.intent_units, l.permit_limit;
    IF room IS NOT TRUE OR current IS NOT TRUE THEN
      RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of the anchor';
    END IF;
    INSERT INTO rowlock_permits AS p (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl,
      takeover, acquired_at, expires_at, note, longest, longest_term, units, told)
    SELECT l.name, l.strategy, fresh,
      greatest(
        l.token + 1,
        l.counted_from,
        base + 1,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        CASE WHEN l.token = 0 THEN (
          SELECT 1 + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = wanted ORDER BY t.generation DESC LIMIT 1))
          FROM rowlock_meta AS m WHERE m.id = 1) END),
      coalesce(host(inet_client_addr()), 'local'), pg_backend_pid(), replace(gen_random_uuid()::text, '-', ''), -1,
      (extract(epoch FROM duration) * 1000)::bigint, 'clock', clock_timestamp(), clock_timestamp() + duration, remark,
      (extract(epoch FROM duration) * 1000)::bigint, fresh, many, coalesce(own_limit, l.permit_limit)
    FROM rowlock_locks AS l
    WHERE l.name = wanted
      AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1)
    RETURNING p.token INTO drawn;
    -- As permit_count.
    WITH counted AS (
      UPDATE rowlock_locks AS l SET
        token = drawn,
        expires_at = clock_timestamp(),
        takes = l.takes + 1,
        generation = CASE WHEN l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END,
        (counted_from, counted_too) = (
          SELECT coalesce(lowest.tokens[17], drawn), lowest.tokens[1:16]
          FROM (
            SELECT ARRAY(
              SELECT o.token FROM rowlock_permits AS o WHERE o.name || '' = wanted AND o.token >= l.counted_from AND o.token < drawn
              UNION
              SELECT o.token FROM unnest(l.counted_too) AS t(token),
                LATERAL (SELECT q.token FROM rowlock_permits AS q WHERE q.name || '' = wanted AND q.token = t.token OFFSET 0) AS o
              ORDER BY 1 LIMIT 17)) AS lowest(tokens)
          WHERE l.takes % 128 = 127
          UNION ALL
          SELECT l.counted_from, l.counted_too WHERE l.takes % 128 <> 127)
      WHERE l.name = wanted AND l.strategy = strategy_of
        AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = wanted ORDER BY n.generation DESC LIMIT 1)
      RETURNING l.name, l.generation, l.takes, l.strategy, l.token, l.permit_limit, l.counted_from, l.counted_too)
    INSERT INTO rowlock_locks (name, strategy, term, token, acquired_at, expires_at, permit_limit, counted_from, counted_too)
    SELECT c.name, c.strategy, 'name', c.token, clock_timestamp(), timestamptz '9999-12-31 00:00:00+00', c.permit_limit,
      c.counted_from, c.counted_too
    FROM counted AS c WHERE c.generation = 1 AND c.takes = 128;
    RETURN QUERY SELECT fresh, drawn;
  EXCEPTION WHEN SQLSTATE 'RL000' OR lock_not_available OR deadlock_detected THEN
    RETURN;
  END;
END $$;

-- One row (term, token), or no row: busy. As whoever reads: beside all others who read.
CREATE FUNCTION rowlock_try_acquire_shared(name text, ttl interval, note text DEFAULT '')
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT t.term, t.token FROM rowlock_permit_seen($1, 'shared', 1, 2147483647, $2, $3) AS t;
END $$;

-- The same as whoever writes: alone. It stands in no line: while readers come and go without a gap, it is busy.
CREATE FUNCTION rowlock_try_acquire_exclusive(name text, ttl interval, note text DEFAULT '')
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT t.term, t.token FROM rowlock_permit_seen($1, 'shared', 2147483647, 2147483647, $2, $3) AS t;
END $$;

-- The same for `units` of `permit_limit`, as a semaphore. A limit that is null: the one that was set.
CREATE FUNCTION rowlock_try_acquire_permit(name text, units bigint, permit_limit bigint, ttl interval, note text DEFAULT '')
RETURNS TABLE (term text, token bigint)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT t.term, t.token FROM rowlock_permit_seen($1, 'semaphore', $2, $3, $4, $5) AS t;
END $$;

-- As rowlock_renew, of a permit.
CREATE FUNCTION rowlock_renew_permit(name text, term text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  UPDATE rowlock_permits AS p SET
    expires_at = greatest(p.expires_at, least(clock_timestamp() + p.ttl * interval '1 millisecond', p.hard_until)),
    renewals = p.renewals + 1
  WHERE p.name = $1 AND p.term = $2 AND NOT p.revoked AND (p.hard_until IS NULL OR p.hard_until > clock_timestamp())
    AND (p.expires_at > clock_timestamp() OR p.acquired_at >= rowlock_begun());
  IF FOUND THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that was revoked meanwhile';
EXCEPTION
  WHEN SQLSTATE 'RL000' THEN RETURN false;
  WHEN lock_not_available OR deadlock_detected THEN RETURN NULL;
END $$;

-- As rowlock_release, of a permit. Its units count until COMMIT.
CREATE FUNCTION rowlock_release_permit(name text, term text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  DELETE FROM rowlock_permits AS p WHERE p.name = $1 AND p.term = $2;
  RETURN FOUND;
EXCEPTION
  WHEN lock_not_available OR deadlock_detected THEN RETURN NULL;
END $$;

-- As rowlock_require, with a permit: who takes the name meanwhile skips it, however late it is, and counts it.
CREATE FUNCTION rowlock_require_permit(name text, term text) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  UPDATE rowlock_permits AS p SET
    expires_at = greatest(p.expires_at, least(clock_timestamp() + p.ttl * interval '1 millisecond', p.hard_until)),
    renewals = p.renewals + 1
  WHERE p.name = $1 AND p.term = $2 AND NOT p.revoked AND (p.hard_until IS NULL OR p.hard_until > clock_timestamp())
    AND (p.expires_at > clock_timestamp() OR p.acquired_at >= rowlock_begun());
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the permit of ''%'' is lost', $1
      USING ERRCODE = 'RL001', HINT = 'It has expired and was deleted, was given back, or was revoked. Roll back.';
  END IF;
END $$;

-- For work that is to be done once: one row with a term, and done = false: it is to be done here. One row without a term, and
-- done = true: it was done, and `result` is what rowlock_done said. No row: it is being done elsewhere. STABLE, and with a
-- take that is rowlock_take_seen for strategy once (made of its text, below). What is done is what the calling statement
-- sees: with the record it sees the data that was committed with it.
CREATE FUNCTION rowlock_try_acquire_once(name text, ttl interval, note text DEFAULT '')
RETURNS TABLE (term text, token bigint, done boolean, result text)
LANGUAGE plpgsql STABLE ROWS 1
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  version xid;
  highest bigint;
BEGIN
  SELECT l.xmin INTO version FROM rowlock_locks AS l
  WHERE l.name = $1
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  SELECT greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1))
  INTO highest FROM rowlock_meta AS m WHERE m.id = 1;
  RETURN QUERY SELECT t.term, t.token, false, NULL::text FROM rowlock_take_once($1, $2, $3, version, highest) AS t;
  IF NOT FOUND THEN
    RETURN QUERY SELECT NULL::text, NULL::bigint, true, l.note FROM rowlock_locks AS l
      WHERE l.name = $1 AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
        AND l.strategy = 'once' AND l.term IS NOT NULL AND l.owner_process IS NULL AND l.renewals = 0
        AND l.expires_at > clock_timestamp();
  END IF;
END $$;

-- In the transaction that writes what is to be written once: makes the run's row the record that it is done, which is kept for
-- `keep_for`; or fails with RL001, and the transaction with it. In force with COMMIT, together with the data. The record's term is
-- told to nobody, so that nothing renews it. First another taker, who waits: sees the record then. First a take of the
-- expired row, then this: no such term. To be called after the last ROLLBACK TO SAVEPOINT; 40001 and 55P03 as for rowlock_require.
CREATE FUNCTION rowlock_done(name text, term text, keep_for interval, result text DEFAULT '') RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  kept CONSTANT bigint := (extract(epoch FROM $3) * 1000)::bigint;
  fresh CONSTANT text := replace(gen_random_uuid()::text, '-', '');
BEGIN
  IF kept IS NULL OR kept NOT BETWEEN 1 AND 3153600000000 THEN
    RAISE EXCEPTION 'a record can''t be kept for %: 1 ms to 36500 days', $3 USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF octet_length($4) > 1024 THEN
    RAISE EXCEPTION 'the result is longer than 1024 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  UPDATE rowlock_locks AS l SET
    term = fresh,
    owner_process = NULL,
    renewals = 0,
    ttl = kept,
    takeover = 'clock',
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + kept * interval '1 millisecond',
    hard_until = NULL,
    revoked = false,
    note = coalesce($4, ''),
    longest = kept,
    longest_term = fresh
  WHERE l.name = $1 AND l.term = $2 AND l.strategy = 'once' AND NOT l.revoked
    AND (l.expires_at > clock_timestamp() OR l.acquired_at >= rowlock_begun())
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the lock ''%'' is lost', $1
      USING ERRCODE = 'RL001', HINT = 'It is done already, has expired and was taken over, was given back, or was revoked. Roll back.';
  END IF;
END $$;

-- As rowlock_release, for a run that was not done: the next one who asks may try. A record is not touched.
CREATE FUNCTION rowlock_release_once(name text, term text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  UPDATE rowlock_locks AS l SET
    term = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN 'name' END,
    expires_at = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN timestamptz '9999-12-31 00:00:00+00' ELSE clock_timestamp() END
  WHERE l.name = $1 AND l.term = $2 AND l.strategy = 'once'
    AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1);
  IF FOUND THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RL000', MESSAGE = 'lets go of a row that is another term''s';
EXCEPTION
  WHEN SQLSTATE 'RL000' THEN RETURN false;
  WHEN lock_not_available OR deadlock_detected THEN RETURN NULL;
END $$;

-- For SQL without C++: in the transaction that is to be kept from a holder that has lost such a lock. Raises the highest token that was
-- admitted, or fails with RL001 if it is higher already, and the transaction with it. Two at once: the second waits for the
-- first one's end, and decides by what it has left; above READ COMMITTED that is error 40001.
CREATE FUNCTION rowlock_admit(name text, token bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  known bigint;
BEGIN
  IF $1 IS NULL OR octet_length($1) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'a lock''s name must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF $2 IS NULL OR $2 <= 0 THEN
    RAISE EXCEPTION 'a token of % is none', $2 USING ERRCODE = 'invalid_parameter_value';
  END IF;
  INSERT INTO rowlock_admitted AS a (name, token) VALUES ($1, $2)
  ON CONFLICT (name) DO UPDATE SET token = greatest(a.token, excluded.token)
  RETURNING a.token INTO known;
  IF known > $2 THEN
    RAISE EXCEPTION 'the lock ''%'' is lost: token % was here, and is higher than %', $1, known, $2
      USING ERRCODE = 'RL001', HINT = 'A later holder has written. Roll back.';
  END IF;
END $$;

-- What the functions name is the server's own or, with its schema, rowlock's, whatever search path the caller has: an operator,
-- function or type that somebody has put beside the tables is never met, nor a temporary table (pg_temp would come first
-- if it were not named). The tables' schema is put into their text. [C12]
DO $$
DECLARE
  place CONSTANT text := (
    SELECT pg_catalog.quote_ident(n.nspname)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) 'rowlock_locks'::pg_catalog.regclass);
  one pg_catalog.regprocedure;
  body text;
  qualified text;
BEGIN
  FOREACH one IN ARRAY ARRAY[
    'rowlock_granting(bigint)', 'rowlock_begun()', 'rowlock_try_acquire(text, interval, text)', 'rowlock_take_seen(text, interval, text, xid, bigint)',
    'rowlock_renew(text, text)', 'rowlock_release(text, text)', 'rowlock_require(text, text)',
    'rowlock_permit_seen(text, text, bigint, bigint, interval, text)',
    'rowlock_take_permit(text, text, bigint, bigint, interval, text, xid, bigint, bigint, text[], text[], xid[])',
    'rowlock_try_acquire_shared(text, interval, text)', 'rowlock_try_acquire_exclusive(text, interval, text)',
    'rowlock_try_acquire_permit(text, bigint, bigint, interval, text)', 'rowlock_renew_permit(text, text)',
    'rowlock_release_permit(text, text)', 'rowlock_require_permit(text, text)',
    'rowlock_try_acquire_once(text, interval, text)', 'rowlock_done(text, text, interval, text)',
    'rowlock_release_once(text, text)', 'rowlock_admit(text, bigint)', 'rowlock_enter_queue(text, text, bigint)']::pg_catalog.regprocedure[]
  LOOP
    EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', one);
    body := (SELECT p.prosrc FROM pg_catalog.pg_proc AS p WHERE p.oid OPERATOR(pg_catalog.=) one);
    qualified := body;
    IF pg_catalog.strpos('rowlock_locks', '.') OPERATOR(pg_catalog.=) 0 THEN  -- else the migrator has put it in
      qualified := pg_catalog.regexp_replace(body, 'rowlock_locks|rowlock_tokens|rowlock_meta|rowlock_permits|rowlock_admitted|'
        'rowlock_granting|rowlock_begun|rowlock_take_seen|rowlock_permit_seen|rowlock_take_permit|rowlock_take_once',
        pg_catalog.concat(pg_catalog.replace(place, '\', '\\'), '.\&'), 'g');
    END IF;
    EXECUTE pg_catalog.replace(pg_catalog.pg_get_functiondef(one), body, qualified);
  END LOOP;
END $$;

-- rowlock_take_once is rowlock_take_seen for another strategy: one text, so that the two can't differ.
DO $$
DECLARE
  body CONSTANT text := (SELECT p.prosrc FROM pg_catalog.pg_proc AS p WHERE p.oid OPERATOR(pg_catalog.=)
    'rowlock_take_seen(text, interval, text, xid, bigint)'::pg_catalog.regprocedure);
BEGIN
  EXECUTE pg_catalog.concat(
    'CREATE FUNCTION rowlock_take_once(name text, ttl interval, note text, version xid, highest bigint) ',
    'RETURNS TABLE (term text, token bigint) LANGUAGE plpgsql ROWS 1 SET lock_timeout = ''1s'' SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off ',
    'SET search_path = pg_catalog, pg_temp AS ', pg_catalog.quote_literal(
      pg_catalog.replace(pg_catalog.replace(body, '''lease''', '''once'''), ', not lease''', ', not once''')));
END $$;

-- Several locks at once, all or none of them (strategy lease); the same names, parameters and columns as in the other dialects:
-- lib/doc/all_at_once.md. Each is one statement that begins as a write transaction, so that nobody comes in between.

-- Takes names of ?1, JSON [{"name":..., "term":..., "thread":..., "old":..., "renewals":...}, ...], each with its own term:
-- those that may be taken, if these are ?12 at least; so all or none, where ?12 is their number. What may be taken is as
-- lock_take has it ("old" and "renewals" are its ?13 and ?14; each may be missing, and so may "thread", then it is ?6), and
-- so are the tokens, of which ?11 are drawn for each name.
-- fragment: all_taking
/* dies with the machine */ /* draws by rowlock_meta */ WITH free AS MATERIALIZED (
  SELECT l.name AS name, w.value ->> 'term' AS new_term, w.value ->> 'thread' AS thread
  FROM json_each(?1) AS w
  JOIN rowlock_locks AS l ON l.name = w.value ->> 'name'
  WHERE l.strategy = ?2
    AND CASE WHEN w.value ->> 'old' IS NULL
          THEN l.term IS NULL
            OR (l.takeover = 'clock' AND l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
          ELSE l.term = w.value ->> 'old'
            AND CASE WHEN w.value ->> 'renewals' IS NULL THEN l.revoked = 0 ELSE l.renewals = w.value ->> 'renewals' END END)
UPDATE rowlock_locks SET
  term = free.new_term,
  token = CASE WHEN ?11 = 0 THEN token ELSE rowlock_drawn(max(
    token + ?11,
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + ?11 - 1,
    (SELECT ?11 + m.boot_floor FROM rowlock_meta AS m WHERE m.id = 1),
    CASE WHEN token = 0 THEN (
      SELECT ?11 + max(m.token_floor,
        coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = rowlock_locks.name), 0))
      FROM rowlock_meta AS m WHERE m.id = 1) ELSE 0 END)) END,
  owner_host = ?3,
  owner_pid = ?4,
  owner_process = ?5,
  owner_thread = coalesce(free.thread, ?6),
  renewals = 0,
  ttl = ?7,
  takeover = ?8,
  acquired_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + min(?7, coalesce(?9, ?7)),
  hard_until = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?9,
  revoked = 0,
  note = ?10,
  longest = ?7,
  longest_term = free.new_term
FROM free
WHERE rowlock_locks.name = free.name AND (SELECT count(*) FROM free) >= <<>>
RETURNING name, token
-- end

-- name: all_take
<<all_taking ?12>>

-- Takes those of them that may be taken, for threads that do not depend on each other: lib/doc/together.md.
-- name: each_take
<<all_taking 1>>

-- Gives back what of ?1, JSON [{"name":..., "term":...}, ...], is there, and says which names; need not be flushed, as
-- lock_release. (0: the file does not know who waits.)
-- name: all_release
/* unflushed */ UPDATE rowlock_locks SET
  term = NULL, expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
FROM json_each(?1) AS wanted
WHERE rowlock_locks.name = wanted.value ->> 'name' AND rowlock_locks.term = wanted.value ->> 'term'
RETURNING name, 0

-- As lock_read, for the names of ?1 (JSON as for all_take).
-- name: all_read
SELECT l.name, l.strategy, l.term, l.token, l.owner_host, l.owner_pid, l.owner_process, l.owner_thread, l.renewals, l.ttl,
  l.takeover,
  max(min(l.acquired_at, 253402214400000), -62135596800000) * 1000 AS acquired_us,
  max(min(l.expires_at, 253402214400000), -62135596800000)
    - cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS expires_in_ms,
  l.revoked, l.note,
  l.hard_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS hard_limit_reached,
  CASE WHEN l.longest_term = l.term THEN l.longest END AS longest_ms
FROM json_each(?1) AS wanted
JOIN rowlock_locks AS l ON l.name = wanted.value ->> 'name'
ORDER BY l.name

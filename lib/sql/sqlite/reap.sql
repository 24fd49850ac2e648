-- What the reaper runs; the same names, parameters and columns as in the other dialects. Each statement is a transaction
-- of its own. SQLite has one writer at a time: a DELETE waits for the file before it reads, and what its WHERE reads,
-- the floor included, changes no more until it has committed. In between two statements anything may happen: a row that
-- was looked at may be renewed, taken, given back, deleted and inserted again before the DELETE, which therefore looks at
-- everything again (P2, B24, B40); and the floor was raised by a transaction before it, flushed (synchronous = FULL):
-- who finds a row gone finds the floor above its last token (B4, B5, B39), also after a crash: the write-ahead log keeps
-- their order. lib/sql/postgresql/reap.sql says what each pair of sessions sees where rows are locked one by one, and why
-- `observed` terms and tokens that are ahead of the clock stay.

-- name: reap_locks_look
SELECT count(*), max(name),
  coalesce(sum(due AND NOT ahead AND strategy = 'unique_insert'), 0),
  coalesce(sum(due AND NOT ahead AND strategy IN ('lease', 'once', 'quorum')), 0),
  coalesce(sum(due AND NOT ahead AND strategy = 'row_lock'), 0),
  coalesce(sum(term IS NOT NULL AND takeover <> 'clock' AND old), 0),
  coalesce(sum(due AND ahead), 0),
  coalesce(max(token) FILTER (WHERE due AND NOT ahead), 0),
  coalesce(sum(kept), 0),
  coalesce(sum(due AND NOT ahead AND strategy IN ('shared', 'semaphore')), 0)
FROM (
  SELECT *, old AND (term IS NULL OR (takeover = 'clock' AND strategy <> 'row_lock')) AS due
  FROM (
    SELECT name, strategy, term, takeover, token,
      takeover = 'clock' AND longest_term = term
        AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + longest ELSE 0 END AS kept,
      token > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + 86400000000 AS ahead,
      CASE strategy
        WHEN 'unique_insert' THEN term IS NULL OR expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
        WHEN 'lease' THEN expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?3
        WHEN 'once' THEN expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?3
        WHEN 'quorum' THEN expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?3
        WHEN 'row_lock' THEN expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?3
        ELSE strategy IN ('shared', 'semaphore') AND permit_limit IS NULL
          AND expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?3
          AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = page.name) END AS old
    FROM (SELECT * FROM rowlock_locks WHERE name > ?1 ORDER BY name LIMIT ?2) AS page))

-- ?3 permits behind the one with name ?1 and term ?2, and whether each has expired ?4 milliseconds ago. What is due is deleted by
-- permit_purge. (A name may have more of them than a page.)
-- name: reap_permits_look
SELECT p.name, p.term, p.takeover = 'clock' AND p.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?4
FROM rowlock_permits AS p WHERE (p.name, p.term) > (?1, ?2) ORDER BY p.name, p.term LIMIT ?3

-- At least ?1, for good; never falls. Before the DELETE, not in its transaction.
-- name: reap_raise_floor
UPDATE rowlock_meta SET token_floor = ?1 WHERE id = 1 AND token_floor < ?1

-- Of the names after ?1 up to ?2 at most ?3 that may go, ?4 milliseconds being idle.
-- name: reap_locks_delete
DELETE FROM rowlock_locks WHERE name IN (
  SELECT l.name FROM rowlock_locks AS l
  WHERE l.name > ?1 AND l.name <= ?2
    AND (l.term IS NULL
      OR (l.takeover = 'clock' AND l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)))
    AND CASE l.strategy
      WHEN 'unique_insert' THEN 1
      WHEN 'lease' THEN l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?4
      WHEN 'once' THEN l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?4
      WHEN 'quorum' THEN l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?4
      WHEN 'row_lock' THEN l.term IS NULL
        AND l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?4
      ELSE l.strategy IN ('shared', 'semaphore') AND l.term IS NULL AND l.permit_limit IS NULL
        AND l.expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?4
        AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS h WHERE h.name = l.name) END
    AND l.token <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + 86400000000
    AND l.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
  ORDER BY l.name LIMIT ?3)
RETURNING strategy

-- What a clock that went back keeps, to be watched.
-- name: reap_kept
SELECT l.name, l.strategy, l.term, l.renewals, l.longest FROM rowlock_locks AS l
WHERE l.name > ?1 AND l.name <= ?2 AND l.takeover = 'clock' AND l.longest_term = l.term
  AND CASE WHEN l.longest BETWEEN 1 AND 6311520000000
        THEN l.expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + l.longest ELSE 0 END
ORDER BY l.name LIMIT ?3

-- name: reap_end_lease
UPDATE rowlock_locks SET term = NULL, expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE name = ?1 AND term = ?2 AND renewals = ?3 AND ?4 = 0 AND strategy IN ('lease', 'once', 'quorum') AND takeover = 'clock'
  AND longest_term = term AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + longest ELSE 0 END

-- name: reap_end_insert
DELETE FROM rowlock_locks
WHERE name = ?1 AND term = ?2 AND renewals = ?3 AND ?4 = 0 AND strategy = 'unique_insert' AND takeover = 'clock'
  AND longest_term = term AND CASE WHEN longest BETWEEN 1 AND 6311520000000
        THEN expires_at > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + longest ELSE 0 END

-- name: reap_tokens_look
SELECT count(*), max(name), coalesce(sum(due), 0), coalesce(max(token) FILTER (WHERE due), 0)
FROM (
  SELECT name, token, token <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 - ?3 * 1000 AS due
  FROM (SELECT * FROM rowlock_tokens WHERE name > ?1 ORDER BY name LIMIT ?2))

-- name: reap_tokens_delete
DELETE FROM rowlock_tokens WHERE name IN (
  SELECT t.name FROM rowlock_tokens AS t
  WHERE t.name > ?1 AND t.name <= ?2
    AND t.token <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 - ?4 * 1000
    AND t.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)
  ORDER BY t.name LIMIT ?3)
RETURNING 1

-- name: reap_floor
SELECT token_floor FROM rowlock_meta WHERE id = 1

-- A run that took ?1 milliseconds has ended just now.
-- name: reap_record
UPDATE rowlock_reaper SET
  started_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?1,
  finished_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER), host = ?2, pid = ?3, report = ?4
WHERE id = 1

-- name: reap_last
SELECT started_at * 1000 AS started_us, finished_at * 1000 AS finished_us, host, pid, report
FROM rowlock_reaper WHERE id = 1

-- Statements on the lock's own row; the same names, parameters and columns as in the other dialects.
-- Every one is a transaction of its own that begins as a write transaction: SQLite has one writer at a time, so that
-- nothing changes between what WHERE and sub-selects read and what SET writes, and 'now' is read after the wait.
-- What is flushed where there is a WAL: lib/doc/sqlite.md. A statement that begins with the comment `unflushed` never is, one with
-- `dies with the machine` only for locks that can outlive their process, or if the program wants that.
-- `draws by`: tokens are reserved ahead in that table. The session has rowlock_drawn(), which is its argument.

-- Takes a free row, or one whose term has expired by the clock (?13 null); or exactly the term ?13, if it is still
-- there: if its renewals are still ?14 (takeover::observed, and a term that a clock which went back keeps, C5:
-- lib/doc/lease.md); or (?14 null) if its explicit owner comes back and no operator has asked for it back (C33).
-- ?12: how many tokens are drawn at once, 0 for none. Every arm rises by that many, or the lowest of them would not be above
-- all that were ever drawn (C45): lib/doc/hand_on.md.
-- fragment: taking
/* dies with the machine */ /* draws by rowlock_meta */ UPDATE rowlock_locks SET
  term = ?3,
  token = CASE WHEN ?12 = 0 THEN token ELSE rowlock_drawn(max(
    token + ?12,
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + ?12 - 1,
    (SELECT ?12 + m.boot_floor FROM rowlock_meta AS m WHERE m.id = 1),
    CASE WHEN token = 0 THEN (
      SELECT ?12 + max(m.token_floor, coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = ?1), 0))
      FROM rowlock_meta AS m WHERE m.id = 1) ELSE 0 END)) END,
  owner_host = ?4,
  owner_pid = ?5,
  owner_process = ?6,
  owner_thread = ?7,
  renewals = 0,
  ttl = ?8,
  takeover = ?9,
  acquired_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + min(?8, coalesce(?10, ?8)),
  hard_until = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?10,
  revoked = 0,
  note = ?11,
  longest = ?8,
  longest_term = ?3
WHERE name = ?1 AND strategy = ?2
  AND CASE WHEN ?13 IS NULL
        THEN term IS NULL
          OR (takeover = 'clock' AND expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
        ELSE term = ?13 AND CASE WHEN ?14 IS NULL THEN revoked = 0 ELSE renewals = ?14 AND ?15 = 0 END END
RETURNING token
-- end

-- name: lock_take
<<taking >>

-- What the first attempt runs: here a sub-select costs nothing, where it is not evaluated.
-- name: lock_next_take
<<taking >>

-- A free row for a name that has none, so that lock_take finds one. Never fails on a duplicate.
-- name: lock_insert_free
/* dies with the machine */ INSERT INTO rowlock_locks (name, strategy, token, expires_at)
VALUES (?1, ?2, 0, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
ON CONFLICT DO NOTHING

-- Whether rows may be hidden from this user: there is no such thing here.
-- name: lock_hidden
SELECT 0

-- Times that can't be calculated with come as the year 1 or 9999: one such row must not fail the others.
-- (Of permits, of which a name may have several: the one that ends first.)
-- name: lock_read
SELECT name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  max(min(acquired_at, 253402214400000), -62135596800000) * 1000 AS acquired_us,
  max(min(expires_at, 253402214400000), -62135596800000)
    - cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS expires_in_ms,
  revoked, substr(note, 1, 1024),
  hard_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms
FROM rowlock_locks WHERE name = ?1 ORDER BY expires_at LIMIT 1

-- The last name of the ?2 rows from the name ?1 on: where a part of the list ends, whatever of it is shown.
-- name: lock_list_end
SELECT max(w.name) FROM (SELECT name FROM rowlock_locks WHERE name >= ?1 ORDER BY name LIMIT ?2) AS w

-- ?7 rows of the names from ?5 to ?6 that are LIKE ?4. ?1: 0 for the held ones, 1 for idle rows too. ?2: 1 for records that work
-- is done, too. ?3: only what has been held for so many milliseconds, or 0. A note that only a hand can have made so long is cut.
-- name: lock_list
SELECT name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  max(min(acquired_at, 253402214400000), -62135596800000) * 1000 AS acquired_us,
  max(min(expires_at, 253402214400000), -62135596800000)
    - cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS expires_in_ms,
  revoked, substr(note, 1, 1024),
  hard_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS hard_limit_reached,
  CASE WHEN longest_term = term THEN longest END AS longest_ms
FROM rowlock_locks
WHERE name >= ?5 AND name <= ?6 AND name LIKE ?4 ESCAPE '|' AND (term IS NOT NULL OR ?1 = 1)
  AND (?2 = 1 OR term IS NULL OR strategy <> 'once' OR owner_process IS NOT NULL OR renewals <> 0)
  AND (?3 = 0 OR (term IS NOT NULL
    AND acquired_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - ?3))
ORDER BY name LIMIT ?7

-- Who waits for the locks that are held: not known here. A file's locks tell that somebody is there, not how many.
-- name: lock_waiters
SELECT name, NULL, NULL, NULL FROM rowlock_locks WHERE 1 = 0 AND name = ?1

-- ?1: JSON [{"name":..., "term":...}, ...]. By name and term alone, never shortens, never passes the hard limit,
-- never prolongs a revoked row.
-- name: lock_renew
/* dies with the machine */ UPDATE rowlock_locks SET
  expires_at = max(expires_at, min(
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ttl,
    coalesce(hard_until, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ttl))),
  renewals = renewals + 1
FROM json_each(?1) AS wanted
WHERE rowlock_locks.name = wanted.value ->> 'name' AND rowlock_locks.term = wanted.value ->> 'term'
  AND revoked = 0
  AND (hard_until IS NULL OR hard_until > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
RETURNING term

-- The rows of ?1 (JSON as for lock_renew) that still have the term; a term that is missing is lost.
-- name: lock_check
SELECT l.term, l.revoked,
  coalesce(l.hard_until <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0) AS hard_limit_reached
FROM json_each(?1) AS wanted
JOIN rowlock_locks AS l ON l.name = wanted.value ->> 'name' AND l.term = wanted.value ->> 'term'

-- For takeover::observed the ttl grows along: takers watch the row for as long as that. `longest` grows always (C5, C57): an
-- expiry that this term has set is never further away than that, or the clock went back since.
-- name: lock_extend
UPDATE rowlock_locks SET
  expires_at = max(expires_at, min(
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?3,
    coalesce(hard_until, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?3))),
  ttl = CASE WHEN takeover = 'observed' THEN max(ttl, ?3) ELSE ttl END,
  longest = max(longest, ?3),
  renewals = renewals + 1
WHERE name = ?1 AND term = ?2 AND revoked = 0
  AND (hard_until IS NULL OR hard_until > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
RETURNING term

-- Changes the note of a term, for people and for those who watch an election. Nobody comes in between: a writer waits for the
-- other's end. After a release, a take-over or a revocation by force it finds another term, or none, and changes nothing.
-- name: lock_set_note
UPDATE rowlock_locks SET note = ?3 WHERE name = ?1 AND term = ?2 RETURNING term

-- A release that a power cut forgets leaves the lock to its expiry.
-- (What it returns: the file does not know who waits.)
-- name: lock_release
/* unflushed */ UPDATE rowlock_locks SET
  term = NULL, expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE name = ?1 AND term = ?2
RETURNING 0

-- Whether the term is there: no row can be locked by itself.
-- name: lock_idle
SELECT 1 FROM rowlock_locks WHERE name = ?1 AND term = ?2

-- No row can be locked by itself, and who has the file locked nobody tells.
-- name: lock_locked_by
SELECT name, NULL, NULL, NULL, NULL FROM rowlock_locks WHERE 1 = 0 AND name = ?1

-- For a lock that is given back earlier than ?3 milliseconds after it was taken. Until then the row has the term ?4, which
-- nobody knows, and no owner_process: otherwise the same explicit owner would take it over. If the clock went back since the
-- lock was taken, the time counts from now (C5).
-- It ends by the clock, also where the lock was `observed`: who tries once could not have it otherwise. Nobody trusts the term
-- ?4, so that no two own the lock by that, whatever the clock does.
-- name: lock_release_at_least
UPDATE rowlock_locks SET
  term = CASE WHEN acquired_at + ?3 > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN ?4 END,
  expires_at = max(cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
    min(acquired_at, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) + ?3),
  ttl = min(?3, max(0, acquired_at + ?3 - cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))),
  longest = ?3,
  longest_term = ?4,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL
WHERE name = ?1 AND term = ?2
RETURNING term

-- name: lock_revoke
UPDATE rowlock_locks SET revoked = 1 WHERE name = ?1 AND term = ?2 RETURNING term

-- Takes the term ?4 away from its holder (C62). The row gets the term ?2, which its holder and all takers find, for ?3 ms at most.
-- The session that has put it there gives it back by lock_release or unique_release before that, after base::closed_for by its own
-- clock. So all that goes from thread to thread comes before the next grant. Should the session die, the row ends by the server's
-- clock. No owner_process: no owner comes back to it. Not a quorum's, whose term never goes to another thread.
-- name: lock_revoke_now
UPDATE rowlock_locks SET
  term = ?2,
  expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?3,
  ttl = ?3,
  longest = ?3,
  longest_term = ?2,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL,
  revoked = 1
WHERE name = ?1 AND term = ?4 RETURNING name

-- Strategy unique_insert: of any number of sessions one gets the row, the others change nothing. Parameters as in
-- lock_take.
-- name: unique_take
INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, owner_thread, ttl, takeover,
  acquired_at, expires_at, hard_until, note, longest, longest_term)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9,
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + min(?8, coalesce(?10, ?8)),
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?10,
  ?11, ?8, ?3)
ON CONFLICT DO NOTHING

-- Before unique_take, in its transaction: deletes what may be taken, as lock_take has it.
-- name: unique_clear
DELETE FROM rowlock_locks
WHERE name = ?1 AND strategy = ?2
  AND CASE WHEN ?3 IS NULL
        THEN term IS NULL
          OR (takeover = 'clock' AND expires_at <= cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
        ELSE term = ?3 AND CASE WHEN ?4 IS NULL THEN revoked = 0 ELSE renewals = ?4 AND ?5 = 0 END END

-- name: unique_set_token
UPDATE rowlock_locks SET token = ?3 WHERE name = ?1 AND term = ?2

-- As lock_release.
-- name: unique_release
/* unflushed */ DELETE FROM rowlock_locks WHERE name = ?1 AND term = ?2

-- As lock_release_at_least, but only until then: after it, unique_release, so that no row stays that keeps out everybody who
-- locks by INSERT (C33). (A row whose time ends later is deleted by whoever takes the name next, or by the reaper.)
-- name: unique_release_at_least
UPDATE rowlock_locks SET
  term = ?4,
  expires_at = min(acquired_at, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) + ?3,
  ttl = min(?3, acquired_at + ?3 - cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
  longest = ?3,
  longest_term = ?4,
  owner_process = NULL,
  takeover = 'clock',
  renewals = renewals + 1,
  hard_until = NULL
WHERE name = ?1 AND term = ?2 AND acquired_at + ?3 > cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
RETURNING term

-- The next token of a name that the caller holds. Rises above the floor each time, not only in a fresh row: the name may
-- have had a lease in between, whose tokens went into the floor with its row.
-- name: token_draw
/* draws by rowlock_meta */ UPDATE rowlock_tokens SET token = rowlock_drawn(max(
  token + 1,
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
  (SELECT max(m.token_floor, m.boot_floor) + 1 FROM rowlock_meta AS m WHERE m.id = 1)))
WHERE name = ?1
RETURNING token

-- name: token_insert
INSERT INTO rowlock_tokens (name, token) VALUES (?1, 0) ON CONFLICT DO NOTHING

-- name: transaction_begin
/* dies with the machine */ /* draws by rowlock_meta */ BEGIN IMMEDIATE

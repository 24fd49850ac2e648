-- What a member of a quorum does: a database among several that grant a lock by majority (strategy quorum). lib/doc/quorum.md; the
-- same names, parameters and columns as in the other dialects. A lock of this strategy is the name's row in rowlock_locks,
-- as a lease's, `observed` while somebody has it, and fenced. The one row of rowlock_quorum says whether, and in which epoch, this
-- database votes.
-- SQLite has one writer at a time, so that nobody comes in between.

-- As lock_take, for a member that votes in the epoch ?14. ?12: the token that other members have granted already: this one grants it,
-- too, if it is above all that it knows; null: the clock says which. ?13: the term that was watched, whose renewals are still
-- ?15; null: only a free row, or one that lock_release_at_least has left, whose time is over by the clock: no other row of this
-- strategy has takeover `clock`, and nobody trusts its term. ?16: the term that this taker has had here already, or null: not where
-- an operator has revoked that one, which stays marked in the row after it was given back. No row: busy, or that, or it does not
-- vote: quorum_read tells.
-- name: quorum_take
UPDATE rowlock_locks SET
  term = ?3,
  token = max(
    token + 1,
    coalesce(?12, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000),
    CASE WHEN token = 0 THEN (
      SELECT 1 + max(m.token_floor, coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = ?1), 0))
      FROM rowlock_meta AS m WHERE m.id = 1) ELSE 0 END),
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
        ELSE term = ?13 AND renewals = ?15 AND ?17 = 0 END
  AND NOT (revoked = 1 AND coalesce(longest_term = ?16, 0))
  AND EXISTS (SELECT 1 FROM rowlock_quorum AS q WHERE q.id = 1 AND q.votes = 1 AND q.epoch_id = ?14)
RETURNING token

-- Renews a term for ?5 milliseconds, and writes the highest token ?3 back: in one statement, in the epoch ?4. By name and term;
-- never shortens, never lowers. No row: the term is gone or revoked, or this member does not vote in that epoch.
-- name: quorum_confirm
UPDATE rowlock_locks SET
  token = max(token, ?3),
  expires_at = max(expires_at, min(
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?5,
    coalesce(hard_until, cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ?5))),
  ttl = max(ttl, ?5),
  longest = max(longest, ?5),
  renewals = renewals + 1
WHERE name = ?1 AND term = ?2 AND revoked = 0 AND strategy = 'quorum'
  AND EXISTS (SELECT 1 FROM rowlock_quorum AS q WHERE q.id = 1 AND q.votes = 1 AND q.epoch_id = ?4)
RETURNING token

-- What this member knows of its quorum: id (null: it belongs to none), epoch and its id, the members, their longest ttl, whether it
-- votes; who it is itself, its clock in microseconds since 1970; and (?1 = 1, which looks at all rows) its highest token.
-- name: quorum_read
SELECT q.quorum_id, q.epoch, q.epoch_id, q.members, q.max_ttl, q.votes, m.database_id,
  cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000,
  CASE WHEN ?1 = 1 THEN max(m.token_floor, coalesce((SELECT max(l.token) FROM rowlock_locks AS l), 0)) ELSE 0 END
FROM rowlock_meta AS m LEFT JOIN rowlock_quorum AS q ON q.id = 1 WHERE m.id = 1

-- Writes that, if the epoch is still the one with the id ?1 (null: none yet).
-- name: quorum_write
UPDATE rowlock_quorum SET quorum_id = ?2, epoch = ?3, epoch_id = ?4, members = ?5, max_ttl = ?6, votes = ?7
WHERE id = 1 AND epoch_id IS ?1

-- The row that quorum_write changes, where somebody has deleted it.
-- name: quorum_make_row
INSERT INTO rowlock_quorum (id) VALUES (1) ON CONFLICT DO NOTHING

-- At a member that joins, before it votes, behind reap_raise_floor: what it grants from now on is above that. (Rows that it has, from
-- a backup, may be older than what others have granted since.)
-- name: quorum_raise
UPDATE rowlock_locks SET token = max(token, ?1) WHERE strategy = 'quorum'

-- Takes a term away from its holder. Nobody hands it on: so the row is free at once. longest_term stays, by which quorum_take
-- knows whose term was revoked.
-- name: quorum_revoke_now
UPDATE rowlock_locks SET
  term = NULL, revoked = 1, expires_at = cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE name = ?1 AND term = ?2 RETURNING name

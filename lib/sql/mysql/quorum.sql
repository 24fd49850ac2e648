-- What a member of a quorum does: a database among several that grant a lock by majority (strategy quorum), for MySQL and MariaDB.
-- lib/doc/quorum.md; the same names, parameters and columns as in the other dialects. A lock of this strategy is the name's row in
-- rowlock_locks, as a lease's, `observed` while somebody has it, and fenced. The one row of rowlock_quorum says whether, and in
-- which epoch, this database votes.
--
-- In autocommit at READ COMMITTED. Who comes in between: a statement that waited for the row reads WHERE on its newest version; the
-- sub-select is a plain read, perhaps of before the wait. So a take or a renewal that waited may be granted in an epoch that has
-- ended meanwhile. Trust counts from before it was sent, and with that from before the new epoch was written, and whoever begins
-- one waits for the longest ttl after that: then nobody trusts it any more.

-- As lock_take, for a member that votes in the epoch $14. $12: the token that other members have granted already: this one grants it,
-- too, if it is above all that it knows; null: the clock says which. $13: the term that was watched, whose renewals are still
-- $15; null: only a free row, or one that lock_release_at_least has left, whose time is over by the clock: no other row of this
-- strategy has takeover `clock`, and nobody trusts its term. $16: the term that this taker has had here already, or null: not where
-- an operator has revoked that one, which stays marked in the row after it was given back. No row: busy, or that, or it does not
-- vote: quorum_read tells.
-- The member's record is looked up by the row's token (id is 1 whatever that is): all plain reads of a statement see the same, and this
-- one, made before the wait for the row, would show the floor, too, as it was before.
-- name: quorum_take
UPDATE rowlock_locks AS l SET
  l.token = last_insert_id(greatest(
    l.token + 1,
    coalesce($12, timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))),
    1 + coalesce(<<known_base >>, 0),
    CASE WHEN l.token = 0 THEN (
      SELECT 1 + greatest(m.token_floor,
        coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0))
      FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END)),
  l.owner_host = $4,
  l.owner_pid = $5,
  l.owner_process = $6,
  l.owner_thread = $7,
  l.renewals = 0,
  l.ttl = $8,
  l.takeover = $9,
  l.acquired_at = utc_timestamp(6),
  l.expires_at = utc_timestamp(6) + INTERVAL 1000 * least($8, coalesce($10, $8)) MICROSECOND,
  l.hard_until = utc_timestamp(6) + INTERVAL 1000 * $10 MICROSECOND,
  l.revoked = 0,
  l.note = $11,
  l.longest = $8,
  l.longest_term = $3,
  l.term = $3
WHERE l.name = $1 AND l.strategy = $2
  AND CASE WHEN $13 IS NULL
        THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6))
        ELSE l.term = $13 AND l.renewals = $15 AND $17 = <<known_base >> END
  AND <<pulse $8 + 0 * l.token>> = <<known_base >>
  AND NOT (l.revoked = 1 AND coalesce(l.longest_term = $16, 0))
  AND EXISTS (SELECT 1 FROM rowlock_quorum AS q
    WHERE q.id = CASE WHEN l.token < 0 THEN 0 ELSE 1 END AND q.votes = 1 AND q.epoch_id = $14)

-- Renews a term for $5 milliseconds, and writes the highest token $3 back: in one statement, in the epoch $4. By name and term;
-- never shortens, never lowers. No row: the term is gone or revoked, or this member does not vote in that epoch.
-- name: quorum_confirm
UPDATE rowlock_locks SET
  token = greatest(token, $3),
  expires_at = greatest(expires_at, least(
    utc_timestamp(6) + INTERVAL 1000 * $5 MICROSECOND,
    coalesce(hard_until, utc_timestamp(6) + INTERVAL 1000 * $5 MICROSECOND))),
  ttl = greatest(ttl, $5),
  longest = greatest(longest, $5),
  renewals = renewals + 1
WHERE name = $1 AND term = $2 AND revoked = 0 AND strategy = 'quorum'
  AND EXISTS (SELECT 1 FROM rowlock_quorum AS q WHERE q.id = 1 AND q.votes = 1 AND q.epoch_id = $4)

-- What this member knows of its quorum: id (null: it belongs to none), epoch and its id, the members, their longest ttl, whether it
-- votes; who it is itself, its clock in microseconds since 1970; and ($1 = 1, which looks at all rows) its highest token.
-- name: quorum_read
SELECT q.quorum_id, q.epoch, q.epoch_id, q.members, q.max_ttl, q.votes, m.database_id,
  timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)),
  CASE WHEN $1 = 1 THEN greatest(m.token_floor, (SELECT coalesce(max(l.token), 0) FROM rowlock_locks AS l)) ELSE 0 END
FROM rowlock_meta AS m LEFT JOIN rowlock_quorum AS q ON q.id = 1 WHERE m.id = 1

-- Writes that, if the epoch is still the one with the id $1 (null: none yet). Of two at once the second waits, and meets another
-- epoch. (The epoch's id last: SET is assigned from left to right.)
-- name: quorum_write
UPDATE rowlock_quorum SET quorum_id = $2, epoch = $3, members = $5, max_ttl = $6, votes = $7, epoch_id = $4
WHERE id = 1 AND epoch_id <=> $1

-- The row that quorum_write changes, where somebody has deleted it.
-- name: quorum_make_row
INSERT INTO rowlock_quorum (id) VALUES (1) ON DUPLICATE KEY UPDATE id = rowlock_quorum.id

-- At a member that joins, before it votes, behind reap_raise_floor: what it grants from now on is above that. (Rows that it has, from
-- a backup, may be older than what others have granted since.)
-- name: quorum_raise
UPDATE rowlock_locks SET token = greatest(token, $1) WHERE strategy = 'quorum'

-- Takes a term away from its holder. Nobody hands it on: so the row is free at once. longest_term stays, by which quorum_take
-- knows whose term was revoked.
-- name: quorum_revoke_now
UPDATE rowlock_locks SET revoked = 1, expires_at = utc_timestamp(6), term = NULL
WHERE name = $1 AND term = $2

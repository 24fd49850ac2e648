-- What a member of a quorum does: a database among several that grant a lock by majority (strategy quorum). lib/doc/quorum.md; the
-- same names, parameters and columns as in the other dialects. A lock of this strategy is the name's row in rowlock_locks,
-- as a lease's, `observed` while somebody has it, and fenced. The one row of rowlock_quorum says whether, and in which epoch, this
-- database votes.
--
-- In autocommit at READ COMMITTED. Who comes in between: after a wait for the row, WHERE is read again on its newest version, but
-- the sub-select still sees the member's record as it was when the statement began (B1). So a take or a renewal that waited may be
-- granted in an epoch that has ended meanwhile. Trust counts from before it was sent, and with that from before the new epoch
-- was written, and whoever begins one waits for the longest ttl after that: then nobody trusts it any more.

-- As lock_take, for a member that votes in the epoch $14. $12: the token that other members have granted already: this one grants it,
-- too, if it is above all that it knows; null: the clock says which. $13: the term that was watched, whose renewals are still
-- $15; null: only a free row, or one that lock_release_at_least has left, whose time is over by the clock: no other row of this
-- strategy has takeover `clock`, and nobody trusts its term. $16: the term that this taker has had here already, or null: not where
-- an operator has revoked that one, which stays marked in the row after it was given back; a revocation at the same time has the
-- row locked, and is met. No row: busy, or that, or it does not vote: quorum_read tells.
-- name: quorum_take
UPDATE rowlock_locks AS l SET
  term = $3,
  token = greatest(
    l.token + 1,
    coalesce($12::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
    pulse.base + 1,
    CASE WHEN l.token = 0 THEN (
      SELECT 1 + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1))
      FROM rowlock_meta AS m WHERE m.id = 1) END),
  owner_host = $4,
  owner_pid = $5::bigint,
  owner_process = $6,
  owner_thread = $7::bigint,
  renewals = 0,
  ttl = $8::bigint,
  takeover = $9,
  acquired_at = clock_timestamp(),
  expires_at = least(clock_timestamp() + $8::bigint * interval '1 millisecond',
                     clock_timestamp() + $10::bigint * interval '1 millisecond'),
  hard_until = clock_timestamp() + $10::bigint * interval '1 millisecond',
  revoked = false,
  note = $11,
  longest = $8::bigint,
  longest_term = $3,
  takes = l.takes + 1,
  generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 ELSE l.generation END
FROM <<pulse $8>> AS pulse
WHERE l.name = $1 AND l.strategy = $2 AND l.term IS DISTINCT FROM 'name'
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  AND CASE WHEN $13::text IS NULL
        THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())
        ELSE l.term = $13 AND l.renewals = $15::bigint AND $17::bigint = <<incarnations >> END
  AND NOT (l.revoked AND coalesce(l.longest_term = $16, false))
  AND EXISTS (SELECT 1 FROM rowlock_quorum AS q WHERE q.id = 1 AND q.votes AND q.epoch_id = $14)
RETURNING l.token

-- Renews a term for $5 milliseconds, and writes the highest token $3 back: in one statement, in the epoch $4. By name and term;
-- never shortens, never lowers. No row: the term is gone or revoked, or this member does not vote in that epoch.
-- name: quorum_confirm
UPDATE rowlock_locks AS l SET
  token = greatest(l.token, $3::bigint),
  expires_at = greatest(l.expires_at, least(clock_timestamp() + $5::bigint * interval '1 millisecond', l.hard_until)),
  ttl = greatest(l.ttl, $5::bigint),
  longest = greatest(l.longest, $5::bigint),
  renewals = l.renewals + 1
WHERE l.name = $1 AND l.term = $2 AND NOT l.revoked AND l.strategy = 'quorum'
  AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1)
  AND EXISTS (SELECT 1 FROM rowlock_quorum AS q WHERE q.id = 1 AND q.votes AND q.epoch_id = $4)
RETURNING l.token

-- What this member knows of its quorum: id (null: it belongs to none), epoch and its id, the members, their longest ttl, whether it
-- votes; who it is itself, its clock in microseconds since 1970; and ($1 = 1, which looks at all rows) its highest token.
-- name: quorum_read
SELECT q.quorum_id, q.epoch, q.epoch_id, q.members, q.max_ttl, q.votes::int, m.database_id,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  CASE WHEN $1::bigint = 1 THEN greatest(m.token_floor, (SELECT max(l.token) FROM rowlock_locks AS l)) ELSE 0 END
FROM rowlock_meta AS m LEFT JOIN rowlock_quorum AS q ON q.id = 1 WHERE m.id = 1

-- Writes that, if the epoch is still the one with the id $1 (null: none yet). Of two at once the second waits, and meets another
-- epoch.
-- name: quorum_write
UPDATE rowlock_quorum SET quorum_id = $2, epoch = $3::bigint, epoch_id = $4, members = $5, max_ttl = $6::bigint,
  votes = $7::bigint = 1
WHERE id = 1 AND epoch_id IS NOT DISTINCT FROM $1::text

-- The row that quorum_write changes, where somebody has deleted it.
-- name: quorum_make_row
INSERT INTO rowlock_quorum (id) VALUES (1) ON CONFLICT DO NOTHING

-- At a member that joins, before it votes, behind reap_raise_floor: what it grants from now on is above that. (Rows that it has, from
-- a backup, may be older than what others have granted since.)
-- name: quorum_raise
UPDATE rowlock_locks SET token = greatest(token, $1::bigint) WHERE strategy = 'quorum'

-- Takes a term away from its holder. Nobody hands it on: so the row is free at once. longest_term stays, by which quorum_take
-- knows whose term was revoked.
-- name: quorum_revoke_now
UPDATE rowlock_locks SET term = NULL, revoked = true, expires_at = clock_timestamp()
WHERE name = $1 AND term = $2 RETURNING name

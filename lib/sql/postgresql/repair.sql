-- For an operator, and a name whose fencing token is so high that none is left above it: no take leaves it so, another program or a
-- hand does. Such a name can't be taken with a token any more. The names, parameters and columns are the same in all dialects. Each
-- statement is a transaction of its own at READ COMMITTED.
--
-- This is the one place where a name's token falls. It falls from a value with less than 64 above it, which is what one take may draw, and
-- to 0: the next take draws above the clock, the floor, and the name's entry in rowlock_tokens, as for a name that was never used.
-- The former tokens of the name were overwritten, so nothing else is known of them.
--
-- Who may come in between, and what each of them sees (R: repair_lock or repair_tokens):
--
-- A take with tokens fails before R, on the row or on the entry: the number does not fit. So the name can't become anybody's by it
--   between a look and R. (Above the bound, but below the highest number, single takes still succeed, 64 at most. One that is
--   first has made the row its own: R meets a term that lives.) Behind R it draws its token from 0.
-- A take without tokens, a renewal: whichever has the row first is waited for, a second at most.
--   If R is first, a renewal meets no row: R, as a take, ends only a term that has expired by the clock. If R is second, the
--   condition is evaluated again on the newest version: the term lives, and nothing is changed.
-- A release leaves no term: R may be first or second. A revocation the same.
-- A guard of the name, a row_lock's holder: the transaction has the row locked. R waits a second, and changes nothing (row_locked).
-- A permit's take fails as any take, and without tokens needs none of this one's. It counts permits from a token on, which R
--   sets to 0 as well: all are counted. One that R has waited for, and whose permit R's snapshot does not show, has changed `takes`.
-- The reaper leaves the row, because its token is ahead of the clock, and the floor with it; afterwards it is a row as any other.
-- The entry: of unique_insert and row_lock, whose rows do not outlive the term. A draw of the name fails while the number does not
--   fit. Of unique_insert a living term is in the row, which repair_tokens looks at; of row_lock the holder's session is asked before.
-- R again, after a reply that was lost: it meets no such token, and changes nothing.

-- The tokens of the name's row and of its entry; null where there is none. A plain read: for messages, and for whether to go on.
-- name: repair_look
SELECT (SELECT l.token FROM rowlock_locks AS l WHERE l.name = $1 ORDER BY l.generation DESC LIMIT 1), (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1 ORDER BY t.generation DESC LIMIT 1)

-- A row of unique_insert is left: it ends with its term, and its next token comes from the entry.
-- name: repair_lock
UPDATE rowlock_locks AS l SET token = 0, counted_from = 0, counted_too = NULL,
  term = CASE WHEN l.term = 'name' THEN l.term END,
  expires_at = CASE WHEN l.term = 'name' THEN l.expires_at ELSE clock_timestamp() END
WHERE l.name = $1 AND l.token > 9223372036854775743 AND l.strategy <> 'unique_insert'
  AND (l.term IS NULL OR l.term = 'name' OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))
  AND l.takes = (SELECT o.takes FROM rowlock_locks AS o WHERE o.name = $1 AND o.generation = l.generation)
  AND NOT EXISTS (SELECT 1 FROM rowlock_permits AS p WHERE p.name = $1 AND p.expires_at > clock_timestamp())

-- name: repair_tokens
UPDATE rowlock_tokens SET token = 0
WHERE name = $1 AND token > 9223372036854775743
  AND NOT EXISTS (SELECT 1 FROM rowlock_locks AS l WHERE l.name = $1 AND l.term IS NOT NULL
    AND NOT (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))

-- What transaction::admit() has seen of the name. A transaction that admits a token has the row locked: this waits for it.
-- name: repair_admitted
UPDATE rowlock_admitted SET token = 0 WHERE name = $1 AND token > 9223372036854775743

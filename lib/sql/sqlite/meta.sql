-- name: meta_read
SELECT database_id, schema_version, oldest_reader FROM rowlock_meta WHERE id = 1

-- The file tells: lib/doc/identity.md.
-- name: meta_lineage
SELECT NULL

-- Which of our names (prefix ?2) are views: what they do is somebody else's. There are no schemas. [C12]
-- name: meta_views
SELECT name FROM sqlite_schema
WHERE type = 'view' AND ?1 IS NOT NULL AND lower(name) IN (lower(?2) || 'meta', lower(?2) || 'migrations', lower(?2) || 'locks',
  lower(?2) || 'tokens', lower(?2) || 'reaper', lower(?2) || 'permits', lower(?2) || 'quorum', lower(?2) || 'admitted')

-- Fencing tokens that a crash of the machine forgets must not be drawn again, also if its clock is behind afterwards. So each
-- draw is at or below token_ceiling, which is raised, and flushed, before. The first session after a boot (?1) makes that
-- boot_floor, which all draws are above. Nobody comes in between: one writer at a time.

-- How much may be drawn: nothing yet if the kernel has booted since.
-- name: file_ceiling
SELECT CASE WHEN boot_id = ?1 AND boot_floor < token_ceiling THEN token_ceiling ELSE 0 END FROM rowlock_meta WHERE id = 1

-- An hour ahead of the clock. Behind a boot a second above the former ceiling at least, and no more, so that frequent boots do not
-- carry the tokens away from the clock.
-- name: file_raise_ceiling
UPDATE rowlock_meta SET
  boot_floor = CASE WHEN boot_id = ?1 THEN boot_floor ELSE token_ceiling END,
  token_ceiling = max(
    token_ceiling + CASE WHEN boot_id = ?1 AND boot_floor < token_ceiling THEN 0 ELSE 1000000 END,
    cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000 + 3600000000),
  boot_id = ?1
WHERE id = 1
RETURNING token_ceiling

-- In the program's own transaction, before a token is drawn. The ceiling stays: the program decides what is flushed.
-- name: file_boot
UPDATE rowlock_meta SET boot_floor = token_ceiling, boot_id = ?1 WHERE id = 1 AND boot_id <> ?1

-- A change, so that something is flushed: with it is all that was committed before.
-- name: flush_committed
UPDATE rowlock_meta SET token_ceiling = token_ceiling + 1 WHERE id = 1

-- Permits that are held are gone. The anchors stay, with their tokens: to programs of version 5 they are rows of a strategy
-- that they don't know.
UPDATE rowlock_meta SET schema_version = 5;
ALTER TABLE rowlock_locks DROP COLUMN permit_limit;
ALTER TABLE rowlock_locks DROP COLUMN intent_units;
ALTER TABLE rowlock_locks DROP COLUMN intent_term;
ALTER TABLE rowlock_locks DROP COLUMN intent_until;
DROP TABLE rowlock_permits;

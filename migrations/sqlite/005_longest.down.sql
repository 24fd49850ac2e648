UPDATE rowlock_meta SET schema_version = 4;
ALTER TABLE rowlock_locks DROP COLUMN longest;
ALTER TABLE rowlock_locks DROP COLUMN longest_term;

-- How long a term can last at most after it was last taken, renewed or extended, in milliseconds, and the term that this was
-- written for: with another one the row was taken by a program that does not know these columns. lib/doc/lease.md.
ALTER TABLE rowlock_locks ADD COLUMN longest INTEGER;
ALTER TABLE rowlock_locks ADD COLUMN longest_term TEXT;
UPDATE rowlock_meta SET schema_version = 5;

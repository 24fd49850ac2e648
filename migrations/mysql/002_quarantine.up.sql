-- Only PostgreSQL has tables for the quarantine: migrations/postgresql/002_quarantine.up.sql. Here the version alone changes.
-- This text can be run again, also after a later version.
UPDATE rowlock_meta SET schema_version = greatest(schema_version, 2), oldest_reader = greatest(oldest_reader, 2);

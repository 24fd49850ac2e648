-- Only PostgreSQL has tables for the quarantine: migrations/postgresql/002_quarantine.up.sql. Here the version alone changes.
UPDATE rowlock_meta SET schema_version = 2, oldest_reader = 2;

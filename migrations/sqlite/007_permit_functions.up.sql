-- Functions in the other databases. SQLite stores none, so that there is nothing but the version, which is the same everywhere.
UPDATE rowlock_meta SET schema_version = 7;

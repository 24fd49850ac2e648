UPDATE rowlock_meta SET schema_version = 2;
DROP TABLE IF EXISTS rowlock_reaper;

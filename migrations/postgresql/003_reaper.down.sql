UPDATE rowlock_meta SET schema_version = 2;
DROP TABLE rowlock_reaper;

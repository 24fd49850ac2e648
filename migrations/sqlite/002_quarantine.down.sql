UPDATE rowlock_meta SET schema_version = 1, oldest_reader = 1;

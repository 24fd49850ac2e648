UPDATE rowlock_meta SET schema_version = 6;

-- No process takes a lock from here on, or adds a record, until the version is the former one.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_permits WRITE;
UPDATE rowlock_meta SET schema_version = 1, oldest_reader = 1;
UNLOCK TABLES;

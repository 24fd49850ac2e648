LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_reaper WRITE;
UPDATE rowlock_meta SET schema_version = 2;
DROP TABLE rowlock_reaper;
UNLOCK TABLES;

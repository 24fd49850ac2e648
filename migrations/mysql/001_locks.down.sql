-- Nobody takes a lock from here on. In these databases each DROP TABLE commits: first of all there is no version any more.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE;
UPDATE rowlock_meta SET schema_version = 0;
DROP TABLE rowlock_locks;
DROP TABLE rowlock_migrations;
DROP TABLE rowlock_meta;
UNLOCK TABLES;

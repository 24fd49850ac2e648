DROP TABLE rowlock_locks;
DROP TABLE rowlock_migrations;
DROP TABLE rowlock_meta;

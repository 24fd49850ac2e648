-- A member of a quorum forgets it.
DROP TABLE rowlock_admitted;
DROP TABLE rowlock_quorum;
DROP TABLE rowlock_permits;
DROP TABLE rowlock_reaper;
DROP TABLE rowlock_tokens;
DROP TABLE rowlock_locks;
DROP TABLE rowlock_migrations;
DROP TABLE rowlock_meta;

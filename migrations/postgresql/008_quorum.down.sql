-- The member forgets its quorum: it has to be joined again before it votes. What was admitted is forgotten, too.
UPDATE rowlock_meta SET schema_version = 7;
DROP FUNCTION rowlock_admit(text, bigint);
DROP TABLE rowlock_admitted;
DROP TABLE rowlock_quorum;

UPDATE rowlock_meta SET schema_version = 3;
DROP FUNCTION rowlock_try_acquire(text, interval, text);
DROP FUNCTION rowlock_renew(text, text);
DROP FUNCTION rowlock_release(text, text);
DROP FUNCTION rowlock_require(text, text);

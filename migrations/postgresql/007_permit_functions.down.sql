-- What SQL without C++ holds stays held; it ends by its expiry.
UPDATE rowlock_meta SET schema_version = 6;
DROP FUNCTION rowlock_try_acquire_shared(text, interval, text);
DROP FUNCTION rowlock_try_acquire_exclusive(text, interval, text);
DROP FUNCTION rowlock_try_acquire_permit(text, bigint, bigint, interval, text);
DROP FUNCTION rowlock_permit_seen(text, text, bigint, bigint, interval, text);
DROP FUNCTION rowlock_take_permit(text, text, bigint, bigint, interval, text, xid, bigint, bigint, text[], text[], xid[]);
DROP FUNCTION rowlock_renew_permit(text, text);
DROP FUNCTION rowlock_release_permit(text, text);
DROP FUNCTION rowlock_require_permit(text, text);
DROP FUNCTION rowlock_try_acquire_once(text, interval, text);
DROP FUNCTION rowlock_take_once(text, interval, text, xid, bigint);
DROP FUNCTION rowlock_done(text, text, interval, text);
DROP FUNCTION rowlock_release_once(text, text);

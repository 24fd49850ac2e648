-- Tokens rise for ever: what the table knew goes into the floor before it is dropped. Locked first, so that no token is
-- drawn in between.
LOCK TABLES rowlock_locks WRITE, rowlock_meta WRITE, rowlock_migrations WRITE, rowlock_tokens WRITE;
UPDATE rowlock_meta SET
  schema_version = 1,
  token_floor = greatest(token_floor, (SELECT coalesce(max(token), 0) FROM rowlock_tokens));
DROP TABLE rowlock_tokens;
UNLOCK TABLES;

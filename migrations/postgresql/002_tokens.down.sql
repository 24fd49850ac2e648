-- Tokens rise for ever: what the table knew goes into the floor before it is dropped.
UPDATE rowlock_meta SET
  schema_version = 1,
  token_floor = greatest(token_floor, (SELECT max(token) FROM rowlock_tokens));
DROP TABLE rowlock_tokens;

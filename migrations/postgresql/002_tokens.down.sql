-- Tokens rise for ever: what the table knew goes into the floor before it is dropped. One statement, and locked first,
-- so that no token is drawn in between, also where a tool runs this outside a transaction.
DO $$ BEGIN
  LOCK TABLE rowlock_tokens IN ACCESS EXCLUSIVE MODE;
  UPDATE rowlock_meta SET
    schema_version = 1,
    token_floor = greatest(token_floor, (SELECT max(token) FROM rowlock_tokens));
  DROP TABLE rowlock_tokens;
END $$;

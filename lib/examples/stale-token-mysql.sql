-- A row keeps the fencing token of whoever wrote it last, and refuses an older one: a holder that lost its lock and does not
-- know it yet can't overwrite what the next one wrote. Each UPDATE has to say its token. For MySQL and MariaDB.
CREATE TABLE account (
  id         INT            NOT NULL PRIMARY KEY,
  balance    DECIMAL(20, 2) NOT NULL,
  lock_token BIGINT         NOT NULL DEFAULT 0
) ENGINE = InnoDB;

DELIMITER $$
CREATE TRIGGER refuse_stale_token BEFORE UPDATE ON account FOR EACH ROW
IF NEW.lock_token < OLD.lock_token THEN
  SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30005, MESSAGE_TEXT = 'the token is stale: a newer one has written already';
END IF
$$
DELIMITER ;

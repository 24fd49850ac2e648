// Many leases in one statement on MariaDB, by libmariadb alone: what rowlock does for threads that take at
// the same time. The statements are those of rowlock, prepared.
#include <fmt/format.h>

#include "systems/batches.hpp"
#include "systems/databases.hpp"
#include "systems/libmariadb.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

constexpr auto take_each =
    "UPDATE (SELECT f.name, f.term, f.thread, count(*) OVER () AS found, "
    "CASE WHEN max(f.token) OVER () - min(f.token) OVER () < 3600000000 "
    "THEN max(f.token) OVER () ELSE f.token END AS token, "
    "CASE WHEN max(f.token) OVER () - min(f.token) OVER () < 3600000000 "
    "THEN max(f.token) OVER () ELSE 0 END AS told FROM ("
    "SELECT DISTINCT j.name, j.term, j.thread, greatest(l.token + 1, "
    "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)), 1 + p.base, "
    "CASE WHEN l.token = 0 THEN (SELECT 1 + greatest(m.token_floor, "
    "coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = l.name), 0)) "
    "FROM rowlock_meta AS m WHERE m.id = 1 + l.token) ELSE 0 END) AS token "
    "FROM (SELECT (SELECT CASE WHEN q.made_by = @here AND (q.made_in = @start OR (q.made_in = 0 "
    "AND @@global.innodb_flush_log_at_trx_commit IN (1, 3) "
    "AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1))) "
    "AND q.safe_from <= utc_timestamp(6) AND q.until > utc_timestamp(6) AND q.reach >= 30000 THEN q.base END "
    "FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1 "
    "LOCK IN SHARE MODE SKIP LOCKED) AS base) AS p "
    "STRAIGHT_JOIN JSON_TABLE(CONVERT(? USING utf8mb4), '$[*]' COLUMNS (name VARBINARY(255) PATH '$.name', "
    "term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term', thread BIGINT PATH '$.thread', "
    "old VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.old', renewals BIGINT PATH '$.renewals', "
    "incarnation BIGINT PATH '$.incarnation')) AS j "
    "STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = j.name "
    "WHERE p.base = @base AND l.strategy = 'lease' AND CASE WHEN j.old IS NULL "
    "THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6)) "
    "ELSE l.term = j.old AND CASE WHEN j.renewals IS NULL THEN l.revoked = 0 "
    "ELSE l.renewals = j.renewals AND j.incarnation = p.base END END "
    "FOR UPDATE SKIP LOCKED) AS f) AS free "
    "STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = free.name SET "
    "l.token = free.token + 0 * last_insert_id(free.told), l.owner_host = ?, l.owner_pid = ?, "
    "l.owner_process = ?, l.owner_thread = free.thread, l.renewals = 0, l.ttl = 30000, "
    "l.takeover = 'clock', l.acquired_at = utc_timestamp(6), "
    "l.expires_at = utc_timestamp(6) + INTERVAL 1000 * 30000 MICROSECOND, l.hard_until = NULL, "
    "l.revoked = 0, l.note = '', l.longest = 30000, l.longest_term = free.term, l.term = free.term "
    "WHERE free.found >= 1";

constexpr auto release_all =
    "UPDATE (SELECT f.name, CAST(CASE WHEN count(*) OVER () = json_length(CONVERT(? USING utf8mb4)) "
    "THEN sum(f.waits << (f.place - 1)) OVER () ELSE sum(1 << (f.place - 1)) OVER () END AS UNSIGNED) "
    "& 9223372036854775807 AS told FROM (SELECT DISTINCT j.place, j.name, "
    "1 - coalesce(is_free_lock(sha2(concat_ws('/', database(), 'rowlock_locks', j.name), 256)), 1) AS waits "
    "FROM JSON_TABLE(CONVERT(? USING utf8mb4), '$[*]' COLUMNS (place FOR ORDINALITY, "
    "name VARBINARY(255) PATH '$.name', "
    "term VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.term')) AS j "
    "STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = j.name "
    "WHERE l.term = j.term FOR UPDATE SKIP LOCKED) AS f) AS mine "
    "STRAIGHT_JOIN rowlock_locks AS l FORCE INDEX (PRIMARY) ON l.name = mine.name "
    "SET l.expires_at = utc_timestamp(6) + INTERVAL 0 * last_insert_id(mine.told) MICROSECOND, l.term = NULL";

/// All jobs of a batch or none are done: nobody competes.
class mariadb_line : public batch_line {
 public:
  mariadb_line(std::string const& address, bool takes)
      : connection_(configured(address)),
        statement_(connection_, takes ? take_each : release_all),
        takes_(takes) {}
  void run(batch_jobs jobs) override {
    auto const list = as_json(jobs);
    auto const rows = takes_ ? statement_.execute({list, "host", "4711", "0123456789abcdef01234567"})
                             : statement_.execute({list, list});
    if (takes_ && statement_.insert_id() == 0) throw peer_error("there is no token");
    for (auto* one : jobs) one->done = rows == jobs.size();
  }

 private:
  static my_connection configured(std::string const& address) {
    my_connection c(address);
    c.know_pulse();
    return c;
  }

  my_connection connection_;
  my_statement statement_;
  bool takes_;
};

}  // namespace

void add_mysql_batches(std::vector<system_entry>& all) {
  auto const open = [](std::string const& address) {
    grants(database_of("mariadb"), address);
    auto const rows = std::make_shared<my_connection>(address);
    return std::make_unique<batch_session>(
        std::make_unique<mariadb_line>(address, true), std::make_unique<mariadb_line>(address, false),
        [rows](batch_job const& one) {
          rows->run(
              fmt::format("INSERT INTO rowlock_locks (name, strategy, token, expires_at) "
                          "VALUES ('{}', 'lease', 1, utc_timestamp(6)) "
                          "ON DUPLICATE KEY UPDATE name = rowlock_locks.name",
                          one.name));
        });
  };
  all.push_back({"bare-batch-mariadb", "takes together, bare libmariadb", "mariadb", open,
                 [](std::string const& address) { migrate(database_of("mariadb"), address); }});
}

}  // namespace rowlock::bench

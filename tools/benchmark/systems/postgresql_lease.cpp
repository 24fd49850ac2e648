#include "systems/postgresql_lease.hpp"

#include <array>

#include "systems/databases.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {

bare_lease::bare_lease(std::string const& address, bool flushed) : connection_(address) {
  grants(database_of("postgresql"), address);
  if (!flushed) connection_.run("SET synchronous_commit = off");
  connection_.prepare("insert",
                      "INSERT INTO rowlock_locks (name, strategy, token, expires_at) "
                      "VALUES ($1, 'lease', 1, clock_timestamp()) ON CONFLICT DO NOTHING");
  connection_.prepare(
      "take",
      "UPDATE rowlock_locks AS l SET term = $2, token = greatest(l.token + 1, "
      "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, p.base + 1), owner_host = $3, "
      "owner_pid = $4::bigint, owner_process = $5, owner_thread = $4::bigint, renewals = 0, "
      "ttl = $6::bigint, takeover = 'clock', acquired_at = clock_timestamp(), "
      "expires_at = clock_timestamp() + $6::bigint * interval '1 millisecond', hard_until = NULL, "
      "revoked = false, note = '', longest = $6::bigint, longest_term = $2, takes = l.takes + 1, "
      "generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 "
      "ELSE l.generation END "
      "FROM (SELECT q.base FROM rowlock_pulse AS q WHERE q.made_by = q.xmin "
      "AND q.made_at = pg_relation_filepath(q.tableoid) AND q.safe_from <= clock_timestamp() "
      "AND q.until > clock_timestamp() AND q.reach >= least($6::bigint, 300000) LIMIT 1) AS p "
      "WHERE l.name = $1 AND l.strategy = 'lease' AND l.term IS DISTINCT FROM 'name' "
      "AND l.generation = (SELECT n.generation FROM rowlock_locks AS n WHERE n.name = $1 "
      "ORDER BY n.generation DESC LIMIT 1) "
      "AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())) "
      "RETURNING l.token");
  connection_.prepare(
      "give",
      "UPDATE rowlock_locks AS l SET term = NULL, expires_at = clock_timestamp() "
      "WHERE l.name = $1 AND l.term = $2 AND l.generation = (SELECT n.generation FROM rowlock_locks AS n "
      "WHERE n.name = $1 ORDER BY n.generation DESC LIMIT 1) "
      "RETURNING (NOT pg_try_advisory_xact_lock_shared(hashtextextended(l.name, "
      "l.tableoid::bigint)))::int, "
      "set_config('synchronous_commit', 'off', true)");
}

void bare_lease::take(std::string const& name) {
  term_ = new_term();
  if (name != name_) {
    std::array<char const*, 1> const values{name.c_str()};
    connection_.execute("insert", values);
    name_ = name;
  }
  std::array<char const*, 6> const values{name_.c_str(), term_.c_str(), "host",
                                          "4711",        term_.c_str(), "30000"};
  if (::PQntuples(connection_.execute("take", values).get()) != 1)
    throw peer_error("somebody else has a lease that nobody competes for");
}

void bare_lease::give_back() {
  std::array<char const*, 2> const values{name_.c_str(), term_.c_str()};
  if (::PQntuples(connection_.execute("give", values).get()) != 1) throw peer_error("the lease was not ours");
}

}  // namespace rowlock::bench

// What a program could do on PostgreSQL without rowlock: advisory locks, and a lease in a row by libpq alone.

#include <array>
#include <type_traits>

#include "systems/databases.hpp"
#include "systems/libpq.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

/// SELECT pg_advisory_lock(), SELECT pg_advisory_unlock(): two round trips, and nothing is written.
class advisory_client : public client {
 public:
  explicit advisory_client(std::string const& address) : connection_(address) {
    connection_.prepare("take", "SELECT pg_advisory_lock(hashtextextended($1, 0))");
    connection_.prepare("give", "SELECT pg_advisory_unlock(hashtextextended($1, 0))");
  }
  bool take(std::string const& name, std::stop_token const&) override {
    name_ = name;
    ask("take");
    return true;
  }
  void give_back() override { ask("give"); }

 private:
  void ask(char const* statement) {
    std::array<char const*, 1> const values{name_.c_str()};
    connection_.execute(statement, values);
  }

  pg_connection connection_;
  std::string name_;
};

/// What a lease does on a row of rowlock's table: the same columns, the newest generation, the quarantine's
/// condition, who waits; one UPDATE that is flushed, and one that need not be.
class bare_postgresql_client : public client {
 public:
  explicit bare_postgresql_client(std::string const& address, bool flushed = true) : connection_(address) {
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
  bool take(std::string const& name, std::stop_token const&) override {
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
    return true;
  }
  void give_back() override {
    std::array<char const*, 2> const values{name_.c_str(), term_.c_str()};
    if (::PQntuples(connection_.execute("give", values).get()) != 1)
      throw peer_error("the lease was not ours");
  }

 private:
  pg_connection connection_;
  std::string name_;
  std::string term_;
};

class bare_unflushed_client : public bare_postgresql_client {
 public:
  explicit bare_unflushed_client(std::string const& address) : bare_postgresql_client(address, false) {}
};

template <class Client>
class postgresql_session : public session {
 public:
  explicit postgresql_session(std::string address) : address_(std::move(address)) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<Client>(address_); }

 private:
  std::string address_;
};

}  // namespace

void add_postgresql(std::vector<system_entry>& all) {
  all.push_back({"advisory", "pg_advisory_lock, libpq", "postgresql", [](std::string const& address) {
                   return std::make_unique<postgresql_session<advisory_client>>(address);
                 }});
  auto const bare = [&all]<class Client>(std::type_identity<Client>, std::string id, std::string title) {
    all.push_back(
        {std::move(id), std::move(title), "postgresql",
         [](std::string const& address) { return std::make_unique<postgresql_session<Client>>(address); },
         [](std::string const& address) { migrate(database_of("postgresql"), address); }});
  };
  bare(std::type_identity<bare_postgresql_client>{}, "bare-postgresql", "the same UPDATEs, bare libpq");
  bare(std::type_identity<bare_unflushed_client>{}, "bare-postgresql-unflushed",
       "the same UPDATEs, bare libpq, synchronous_commit = off");
}

}  // namespace rowlock::bench

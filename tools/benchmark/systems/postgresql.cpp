// What a program could do on PostgreSQL without rowlock: advisory locks, and a lease in a row by libpq alone.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>

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

/// The work that a lease makes on a row of rowlock's table: the same columns, one UPDATE that is flushed, and
/// one that need not be.
class bare_postgresql_client : public client {
 public:
  explicit bare_postgresql_client(std::string const& address) : connection_(address) {
    connection_.prepare("insert",
                        "INSERT INTO rowlock_locks (name, strategy, token, expires_at) "
                        "VALUES ($1, 'lease', 0, clock_timestamp()) ON CONFLICT DO NOTHING");
    connection_.prepare(
        "take",
        "UPDATE rowlock_locks SET term = $2, token = greatest(token + 1, "
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint), owner_host = $3, owner_pid = "
        "$4::bigint, "
        "owner_process = $5, owner_thread = $4::bigint, renewals = 0, ttl = $6::bigint, takeover = 'clock', "
        "acquired_at = clock_timestamp(), expires_at = clock_timestamp() + $6::bigint * interval '1 "
        "millisecond', "
        "hard_until = NULL, revoked = false, note = '', longest = $6::bigint, longest_term = $2 "
        "WHERE name = $1 AND strategy = 'lease' "
        "AND (term IS NULL OR (takeover = 'clock' AND expires_at <= clock_timestamp())) RETURNING token");
    connection_.prepare(
        "give",
        "UPDATE rowlock_locks SET term = NULL, expires_at = clock_timestamp() "
        "WHERE name = $1 AND term = $2 RETURNING set_config('synchronous_commit', 'off', true)");
  }
  bool take(std::string const& name, std::stop_token const&) override {
    static std::atomic<unsigned> terms = 0;
    term_ = fmt::format("{:08x}{:08x}0123456789abcdef", ::getpid(), ++terms);
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
  all.push_back({"bare-postgresql", "the same UPDATEs, bare libpq", "postgresql",
                 [](std::string const& address) {
                   return std::make_unique<postgresql_session<bare_postgresql_client>>(address);
                 },
                 [](std::string const& address) { migrate(database_of("postgresql"), address); }});
}

}  // namespace rowlock::bench

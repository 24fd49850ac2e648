// A transaction of the program's own on PostgreSQL, which changes one row: with each kind of guard,
// without one, and with the guard's statements by bare libpq.
#include <optional>
#include <rowlock/postgresql_transaction.hpp>
#include <rowlock/rowlock.hpp>

#include "systems/databases.hpp"
#include "systems/libpq.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

class postgresql_transaction_client : public client {
 public:
  postgresql_transaction_client(std::string const& address, guard how)
      : how_(how),
        connection_(address),
        manager_(how != guard::none ? new lock_manager(postgresql::source(address)) : nullptr) {
    if (how != guard::none) {
      auto const name = "bench-transaction-" + std::to_string(::PQbackendPID(connection_.get()));
      lock_.emplace(*manager_->make_mutex(name).acquire());
      bare_ = guarded_commit(name);
      view_.emplace(*manager_, connection_.get(), transaction_options{how == guard::prepared});
    }
  }
  /// take() is the whole transaction.
  bool take(std::string const&, std::stop_token const&) override {
    connection_.run("BEGIN");
    if (how_ == guard::require) view_->require(*lock_);
    connection_.run("UPDATE bench_stock SET n = n + 1 WHERE id = 1");
    if (how_ == guard::commit || how_ == guard::prepared)
      view_->execute_commit(*lock_);
    else if (how_ == guard::bare)
      connection_.run(bare_);
    else if (view_)
      postgresql::execute_commit(connection_.get());
    else
      connection_.run("COMMIT");
    return true;
  }
  void give_back() override {}

 private:
  /// What execute_commit(lock) sends, as a program would write it.
  std::string guarded_commit(std::string const& name) {
    auto const found = connection_.run("SELECT term FROM rowlock_locks WHERE name = '" + name + "'");
    if (::PQntuples(found.get()) != 1) throw peer_error("the lock has no row");
    return "SAVEPOINT s; SELECT 1::bigint / count(*) FROM (SELECT term FROM rowlock_locks WHERE name = '" +
           name + "' AND term = '" + ::PQgetvalue(found.get(), 0, 0) +
           "' AND NOT revoked AND generation = (SELECT generation FROM rowlock_locks WHERE name = '" + name +
           "' ORDER BY generation DESC LIMIT 1) FOR UPDATE SKIP LOCKED) AS guarded; COMMIT";
  }

  guard how_;
  pg_connection connection_;
  std::string bare_;
  std::unique_ptr<lock_manager> manager_;
  std::optional<held_lock> lock_;
  std::optional<postgresql::transaction> view_;
};

class postgresql_transaction_session : public session {
 public:
  postgresql_transaction_session(std::string address, guard how) : address_(std::move(address)), how_(how) {}
  std::unique_ptr<client> new_client() override {
    return std::make_unique<postgresql_transaction_client>(address_, how_);
  }

 private:
  std::string address_;
  guard how_;
};

void prepare_postgresql_stock(std::string const& address) {
  migrate(database_of("postgresql"), address);
  pg_connection c(address);
  c.run("CREATE TABLE IF NOT EXISTS bench_stock (id integer PRIMARY KEY, n bigint NOT NULL)");
  c.run("INSERT INTO bench_stock VALUES (1, 0) ON CONFLICT DO NOTHING");
}

}  // namespace

void add_postgresql_transactions(std::vector<system_entry>& all) {
  auto const open = [](guard how) {
    return [how](std::string const& address) {
      return std::make_unique<postgresql_transaction_session>(address, how);
    };
  };
  all.push_back({"tx-postgresql", "plain, libpq", "postgresql", open(guard::none), prepare_postgresql_stock});
  all.push_back({"tx-postgresql-require", "require(), libpq", "postgresql", open(guard::require),
                 prepare_postgresql_stock});
  all.push_back({"tx-postgresql-commit", "execute_commit(lock), libpq", "postgresql", open(guard::commit),
                 prepare_postgresql_stock});
  all.push_back({"tx-postgresql-bare", "the same guard and COMMIT, bare libpq", "postgresql",
                 open(guard::bare), prepare_postgresql_stock});
  all.push_back({"tx-postgresql-prepared", "execute_commit(lock), keep_prepared, libpq", "postgresql",
                 open(guard::prepared), prepare_postgresql_stock});
}

}  // namespace rowlock::bench

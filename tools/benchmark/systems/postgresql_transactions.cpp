// A transaction of the program's own on PostgreSQL, which changes one row: with each kind of guard
// and without one.
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
      lock_.emplace(
          *manager_->make_mutex("bench-transaction-" + std::to_string(::PQbackendPID(connection_.get())))
               .acquire());
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
    else if (view_)
      postgresql::execute_commit(connection_.get());
    else
      connection_.run("COMMIT");
    return true;
  }
  void give_back() override {}

 private:
  guard how_;
  pg_connection connection_;
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
  all.push_back({"tx-postgresql-prepared", "execute_commit(lock), keep_prepared, libpq", "postgresql",
                 open(guard::prepared), prepare_postgresql_stock});
}

}  // namespace rowlock::bench

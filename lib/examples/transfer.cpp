// Moves money between two accounts, on any database that SOCI and rowlock know.
//
//   transfer CONNECT_STRING FROM TO AMOUNT       "postgresql://dbname=bank", "mysql://db=bank",
//   "sqlite3://bank.db"
//
//   CREATE TABLE accounts (owner varchar(40) PRIMARY KEY, balance integer NOT NULL);
#include <soci/connection-pool.h>
#include <soci/session.h>
#include <soci/soci.h>

#include <chrono>
#include <cstdio>
#include <rowlock/error.hpp>
#include <rowlock/soci_transaction.hpp>
#include <string>

namespace {

int balance_of(soci::session& sql, std::string const& owner) {
  int balance = 0;
  sql << "SELECT balance FROM accounts WHERE owner = :owner", soci::use(owner), soci::into(balance);
  return balance;
}

void set_balance(soci::session& sql, std::string const& owner, int balance) {
  sql << "UPDATE accounts SET balance = :balance WHERE owner = :owner", soci::use(balance), soci::use(owner);
}

/// On a connection that is lost it fails, and must not hide what was thrown. The transaction is gone then.
void roll_back(soci::session& sql) noexcept {
  try {
    sql.rollback();
  } catch (soci::soci_error const&) {
  }
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace std::chrono_literals;
  if (argc != 5) return 64;
  std::string const from = argv[2], to = argv[3];
  int const amount = std::stoi(argv[4]);

  soci::connection_pool pool{4};
  for (std::size_t i = 0; i < 4; ++i) pool.at(i).open(argv[1]);
  rowlock::lock_manager manager{rowlock::soci::source{pool}};
  soci::session sql{pool};
  auto ledger = manager.make_mutex("ledger", {.ttl = 10s});

  // All is read and decided under the lock, with no transaction open, for as long as it takes.
  auto const lock = ledger.acquire();
  int const left = balance_of(sql, from) - amount;
  int const sum = balance_of(sql, to) + amount;
  if (left < 0) {
    std::puts("not enough money");
    return 1;
  }

  // What was read still holds when it is written: else the lock is lost, and nothing is written.
  rowlock::soci::transaction tx{manager, sql};
  for (;;) {
    try {
      sql.begin();
      tx.require(*lock);
      set_balance(sql, from, left);
      set_balance(sql, to, sum);
      rowlock::soci::execute_commit(sql);  // not sql.commit(), which hides that PostgreSQL has rolled back
      std::puts("moved");
      return 0;
    } catch (rowlock::error const& e) {
      roll_back(sql);
      // A COMMIT in doubt: an operator has to look. All else that can be tried again is, as a whole; but
      // not on a connection that is lost.
      if (!e.transaction_retryable() || e.reason() == rowlock::errc::unreachable) throw;
    }
  }
} catch (rowlock::error const& e) {
  bool const in_doubt = e.reason() == rowlock::errc::in_doubt;
  std::fprintf(stderr, "transfer: %s: %s\n", in_doubt ? "it may have been moved" : "not moved", e.what());
  return 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "transfer: not moved: %s\n", e.what());
  return 1;
}

// Writes the invoices of a month once, however many hosts start it, however often, and whichever dies.
//
//   monthly_job CONNINFO MONTH                                         monthly_job dbname=shop 2026-11
//
//   CREATE TABLE orders (month text NOT NULL, customer text NOT NULL, amount integer NOT NULL);
//   CREATE TABLE invoices (month text NOT NULL, customer text NOT NULL, amount integer NOT NULL);
#include <libpq-fe.h>

#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <rowlock/once.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <stdexcept>
#include <string>

namespace {

using namespace std::chrono_literals;

struct closer {
  void operator()(PGconn* c) const { PQfinish(c); }
  void operator()(PGresult* r) const { PQclear(r); }
};
using connection = std::unique_ptr<PGconn, closer>;
using result = std::unique_ptr<PGresult, closer>;

result run(PGconn* c, char const* sql, std::initializer_list<char const*> values = {}) {
  result r{
      PQexecParams(c, sql, static_cast<int>(values.size()), nullptr, values.begin(), nullptr, nullptr, 0)};
  auto const status = PQresultStatus(r.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(PQerrorMessage(c));
  return r;
}

constexpr auto write_invoices =
    "INSERT INTO invoices SELECT month, customer, sum(amount) FROM orders WHERE month = $1 GROUP BY month, "
    "customer";

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  connection const own{PQconnectdb(argv[1])};
  if (PQstatus(own.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(own.get()));
  rowlock::lock_manager manager{rowlock::postgresql::source{argv[1]}};
  rowlock::postgresql::transaction tx{manager, own.get()};

  auto const work = [&](rowlock::once_run& once) {
    try {
      run(own.get(), "BEGIN");
      auto const written = run(own.get(), write_invoices, {argv[2]});
      // The record and the invoices are committed together: neither is ever there without the other.
      tx.done(once, std::string(PQcmdTuples(written.get())) + " invoices");
      rowlock::postgresql::execute_commit(own.get());
    } catch (...) {
      // On a connection that is lost it fails, and must hide nothing: the transaction is gone with it.
      result const undone{PQexec(own.get(), "ROLLBACK")};
      throw;
    }
  };
  auto const came =
      rowlock::run_once(manager, std::string("invoices/") + argv[2], 400 * 24h, work, {.wait = 1min});
  if (!came) {
    std::puts("it runs elsewhere");
    return 75;
  }
  auto const where = came.by ? "by " + came.by->owner.host + " before" : std::string("here");
  std::printf("done %s: %s\n", where.c_str(), came.result.c_str());
  return 0;
} catch (std::exception const& e) {  // also if it is in doubt: what is done is not done again
  std::fprintf(stderr, "monthly_job: start it again: %s\n", e.what());
  return 1;
}

// Takes orders, and never more than there is, however many processes run on however many hosts.
//
//   order_service CONNINFO ARTICLE PIECES ORDERS
//
// What is left is a sum over two tables: there is no row that one could lock instead.
//   CREATE TABLE deliveries (article text NOT NULL, pieces integer NOT NULL);
//   CREATE TABLE orders (article text NOT NULL, pieces integer NOT NULL);
#include <libpq-fe.h>

#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <stdexcept>
#include <string>

namespace {

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

constexpr auto what_is_left =
    "SELECT (SELECT coalesce(sum(pieces), 0) FROM deliveries WHERE article = $1)"
    " - (SELECT coalesce(sum(pieces), 0) FROM orders WHERE article = $1)";

/// One order. @return false if there is not enough left
bool order(PGconn* c, rowlock::postgresql::transaction& tx, std::string const& article, int pieces) {
  for (;;) {
    try {
      run(c, "BEGIN");
      tx.lock("stock:" + article);  // until COMMIT or ROLLBACK. The next order waits here
      auto const left = run(c, what_is_left, {article.c_str()});
      bool const enough = std::stoi(PQgetvalue(left.get(), 0, 0)) >= pieces;
      if (enough)
        run(c, "INSERT INTO orders VALUES ($1, $2)", {article.c_str(), std::to_string(pieces).c_str()});
      rowlock::postgresql::execute_commit(c);  // COMMIT answers with success also if it rolled back
      return enough;
    } catch (std::exception const& e) {
      // On a connection that is lost it fails, and must not hide `e`. The transaction is gone with it.
      result const undone{PQexec(c, "ROLLBACK")};
      auto const* const known = dynamic_cast<rowlock::error const*>(&e);
      // In doubt is a COMMIT whose reply was lost: the order may be there, so that it can't just be repeated.
      bool const lost = PQstatus(c) != CONNECTION_OK;
      if (known != nullptr ? !known->transaction_retryable() : !lost) throw;
      if (lost) PQreset(c);
      if (PQstatus(c) != CONNECTION_OK) throw;
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) return 64;
  connection const own{PQconnectdb(argv[1])};
  if (PQstatus(own.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(own.get()));
  rowlock::lock_manager manager{rowlock::postgresql::source{argv[1]}};
  rowlock::postgresql::transaction tx{manager, own.get()};  // for one transaction after the other

  int taken = 0, status = 0;
  try {
    for (int i = std::stoi(argv[4]); i > 0; --i) taken += order(own.get(), tx, argv[2], std::stoi(argv[3]));
  } catch (std::exception const& e) {
    auto const* const known = dynamic_cast<rowlock::error const*>(&e);
    bool const in_doubt = known != nullptr && known->reason() == rowlock::errc::in_doubt;
    std::fprintf(stderr, "%s%s\n", in_doubt ? "one more may have been taken: " : "", e.what());
    status = 1;
  }
  std::printf("%d orders taken\n", taken);
  return status;
} catch (std::exception const& e) {
  std::fprintf(stderr, "order_service: %s\n", e.what());
  return 1;
}

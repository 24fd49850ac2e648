#include "systems/libpq.hpp"

#include "systems/system.hpp"

namespace rowlock::bench {

pg_connection::pg_connection(std::string const& conninfo) : connection_(::PQconnectdb(conninfo.c_str())) {
  if (::PQstatus(connection_.get()) != CONNECTION_OK) throw peer_error(::PQerrorMessage(connection_.get()));
  ::PQsetNoticeProcessor(
      connection_.get(), [](void*, char const*) {}, nullptr);
}

pg_result pg_connection::checked(PGresult* result) const {
  pg_result r(result);
  auto const status = ::PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw peer_error(::PQerrorMessage(connection_.get()));
  return r;
}

pg_result pg_connection::run(std::string const& sql) {
  return checked(::PQexec(connection_.get(), sql.c_str()));
}

void pg_connection::prepare(char const* name, char const* sql) {
  checked(::PQprepare(connection_.get(), name, sql, 0, nullptr));
}

pg_result pg_connection::execute(char const* name, std::span<char const* const> values) {
  return checked(::PQexecPrepared(connection_.get(), name, static_cast<int>(values.size()), values.data(),
                                  nullptr, nullptr, 0));
}

}  // namespace rowlock::bench

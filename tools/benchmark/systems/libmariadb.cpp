#include "systems/libmariadb.hpp"

#include "systems/databases.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {

my_connection::my_connection(std::string const& url) : connection_(::mysql_init(nullptr)) {
  auto const p = parsed_mysql_address(url);
  if (::mysql_real_connect(connection_.get(), p.host.c_str(), p.user.c_str(), p.password.c_str(),
                           p.database.c_str(), p.port, nullptr, CLIENT_FOUND_ROWS) == nullptr)
    throw peer_error(::mysql_error(connection_.get()));
}

void my_connection::run(std::string const& sql) {
  if (::mysql_real_query(connection_.get(), sql.data(), sql.size()) != 0)
    throw peer_error(::mysql_error(connection_.get()));
  auto* const rows = ::mysql_store_result(connection_.get());
  if (rows != nullptr) ::mysql_free_result(rows);
}

void my_connection::know_pulse() {
  run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  run("SELECT CAST(made_by AS SIGNED), CAST(made_in AS SIGNED), CAST(base AS SIGNED) "
      "INTO @here, @start, @base FROM rowlock_pulse ORDER BY begun DESC, until DESC, reach DESC LIMIT 1");
}

std::string my_connection::ask(std::string const& sql) {
  if (::mysql_real_query(connection_.get(), sql.data(), sql.size()) != 0)
    throw peer_error(::mysql_error(connection_.get()));
  auto const free = [](MYSQL_RES* r) { ::mysql_free_result(r); };
  std::unique_ptr<MYSQL_RES, decltype(free)> const rows(::mysql_store_result(connection_.get()), free);
  auto* const row = rows ? ::mysql_fetch_row(rows.get()) : nullptr;
  return row != nullptr && row[0] != nullptr ? row[0] : "";
}

my_statement::my_statement(my_connection& connection, std::string const& sql)
    : statement_(::mysql_stmt_init(connection.get())) {
  if (::mysql_stmt_prepare(statement_.get(), sql.data(), sql.size()) != 0)
    throw peer_error(::mysql_stmt_error(statement_.get()));
}

unsigned long long my_statement::execute(std::vector<std::string> const& values) {
  std::vector<MYSQL_BIND> binds(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = const_cast<char*>(values[i].data());  // NOLINT: it only reads it
    binds[i].buffer_length = values[i].size();
  }
  if (::mysql_stmt_bind_param(statement_.get(), binds.data()) != 0 ||
      ::mysql_stmt_execute(statement_.get()) != 0)
    throw peer_error(::mysql_stmt_error(statement_.get()));
  return ::mysql_stmt_affected_rows(statement_.get());
}

}  // namespace rowlock::bench

// What MySQL Connector/C++ costs beside libmariadb, over which it works here: the same prepared statements on
// the same server, in turns. ROWLOCK_TEST_MARIADB or ROWLOCK_TEST_MYSQL says where (tests/servers/mariadb url
// DIR).
//
//   rowlock_driver_cost --benchmark_enable_random_interleaving=true --benchmark_repetitions=10
//
// Where the time is too noisy, the client's instructions per call are the difference of two runs:
//
//   ROWLOCK_ITERATIONS=500 valgrind --tool=callgrind rowlock_driver_cost --benchmark_filter=connector_read
//   (and 2500)
#include <benchmark/benchmark.h>
#include <cppconn/prepared_statement.h>
#include <cppconn/resultset.h>
#include <cppconn/statement.h>
#include <mysql.h>
#include <mysql_connection.h>
#include <mysql_driver.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>

namespace {

struct place {
  std::string user, password, host, database;
  unsigned port = 0;
};

place server() {
  char const* url = std::getenv("ROWLOCK_TEST_MARIADB");
  if (url == nullptr) url = std::getenv("ROWLOCK_TEST_MYSQL");
  std::cmatch parts;
  if (url == nullptr ||
      !std::regex_match(url, parts, std::regex("mysql://([^:]+):([^@]+)@([^:]+):([0-9]+)/(.+)")))
    throw std::runtime_error("ROWLOCK_TEST_MARIADB must be mysql://user:password@host:port/database");
  return {parts[1], parts[2], parts[3], parts[5], static_cast<unsigned>(std::stoul(parts[4]))};
}

constexpr char const* read_sql = "SELECT v FROM driver_cost WHERE id = ?";
constexpr char const* write_sql = "UPDATE driver_cost SET v = v + 1 WHERE id = ?";

std::unique_ptr<sql::Connection> by_connector() {
  auto const p = server();
  sql::ConnectOptionsMap options;
  options["hostName"] = "tcp://" + p.host + ":" + std::to_string(p.port);
  options["userName"] = p.user;
  options["password"] = p.password;
  options["schema"] = p.database;
  std::unique_ptr<sql::Connection> c(sql::mysql::get_driver_instance()->connect(options));
  std::unique_ptr<sql::Statement> const s(c->createStatement());
  s->execute("CREATE TABLE IF NOT EXISTS driver_cost (id INT PRIMARY KEY, v BIGINT NOT NULL)");
  s->execute("REPLACE INTO driver_cost VALUES (1, 0)");
  return c;
}

struct native_close {
  void operator()(MYSQL* c) const noexcept { ::mysql_close(c); }
  void operator()(MYSQL_STMT* s) const noexcept { ::mysql_stmt_close(s); }
};
using native_connection = std::unique_ptr<MYSQL, native_close>;
using native_statement = std::unique_ptr<MYSQL_STMT, native_close>;

native_connection by_libmariadb() {
  auto const p = server();
  native_connection c(::mysql_init(nullptr));
  if (::mysql_real_connect(c.get(), p.host.c_str(), p.user.c_str(), p.password.c_str(), p.database.c_str(),
                           p.port, nullptr, 0) == nullptr)
    throw std::runtime_error(::mysql_error(c.get()));
  return c;
}

native_statement prepare(MYSQL* c, char const* sql) {
  native_statement s(::mysql_stmt_init(c));
  if (::mysql_stmt_prepare(s.get(), sql, std::strlen(sql)) != 0)
    throw std::runtime_error(::mysql_stmt_error(s.get()));
  return s;
}

void connector_read(benchmark::State& state) {
  auto const c = by_connector();
  std::unique_ptr<sql::PreparedStatement> const s(c->prepareStatement(read_sql));
  for (auto _ : state) {
    s->setInt64(1, 1);
    std::unique_ptr<sql::ResultSet> const r(s->executeQuery());
    while (r->next()) benchmark::DoNotOptimize(r->getInt64(1));
  }
}

void libmariadb_read(benchmark::State& state) {
  by_connector();
  auto const c = by_libmariadb();
  auto const s = prepare(c.get(), read_sql);
  long long id = 1;
  long long v = 0;
  MYSQL_BIND in{};
  in.buffer_type = MYSQL_TYPE_LONGLONG;
  in.buffer = &id;
  MYSQL_BIND out = in;
  out.buffer = &v;
  for (auto _ : state) {
    ::mysql_stmt_bind_param(s.get(), &in);
    if (::mysql_stmt_execute(s.get()) != 0) state.SkipWithError(::mysql_stmt_error(s.get()));
    ::mysql_stmt_bind_result(s.get(), &out);
    ::mysql_stmt_store_result(s.get());
    while (::mysql_stmt_fetch(s.get()) == 0) benchmark::DoNotOptimize(v);
    ::mysql_stmt_free_result(s.get());
  }
}

void connector_write(benchmark::State& state) {
  auto const c = by_connector();
  std::unique_ptr<sql::PreparedStatement> const s(c->prepareStatement(write_sql));
  for (auto _ : state) {
    s->setInt64(1, 1);
    benchmark::DoNotOptimize(s->executeUpdate());
  }
}

void libmariadb_write(benchmark::State& state) {
  by_connector();
  auto const c = by_libmariadb();
  auto const s = prepare(c.get(), write_sql);
  long long id = 1;
  MYSQL_BIND in{};
  in.buffer_type = MYSQL_TYPE_LONGLONG;
  in.buffer = &id;
  for (auto _ : state) {
    ::mysql_stmt_bind_param(s.get(), &in);
    if (::mysql_stmt_execute(s.get()) != 0) state.SkipWithError(::mysql_stmt_error(s.get()));
    benchmark::DoNotOptimize(::mysql_stmt_affected_rows(s.get()));
  }
}

void as_told(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMicrosecond);
  if (char const* times = std::getenv("ROWLOCK_ITERATIONS"); times != nullptr)
    b->Iterations(std::atoi(times));
}

BENCHMARK(connector_read)->Apply(as_told);
BENCHMARK(libmariadb_read)->Apply(as_told);
BENCHMARK(connector_write)->Apply(as_told);
BENCHMARK(libmariadb_write)->Apply(as_told);

}  // namespace

BENCHMARK_MAIN();

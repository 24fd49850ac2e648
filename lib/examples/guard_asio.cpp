// Counts, by Boost.Asio and a non-blocking libpq, in transactions that commit only while a lock is held.
//
//   guard_asio CONNINFO TIMES
//
//   CREATE TABLE counter (n integer NOT NULL);
#include <libpq-fe.h>

#include <utility>  // Boost 1.74 forgets it

#include <boost/asio.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <rowlock/asio.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/mutex.hpp>
#include <rowlock/postgresql.hpp>
#include <stdexcept>
#include <string>

namespace {

namespace asio = boost::asio;
using descriptor = asio::posix::stream_descriptor;
struct closer {
  void operator()(PGconn* c) const { PQfinish(c); }
  void operator()(PGresult* r) const { PQclear(r); }
};
using result = std::unique_ptr<PGresult, closer>;

class session {
 public:
  session(asio::io_context& io, char const* conninfo) : native_(PQconnectdb(conninfo)), socket_(io) {
    if (PQstatus(native_.get()) != CONNECTION_OK || PQsetnonblocking(native_.get(), 1) != 0) fail();
    socket_.assign(PQsocket(native_.get()));
  }
  ~session() { socket_.release(); }  // libpq closes it

  asio::awaitable<result> run(std::string sql) {
    auto* const c = native_.get();
    if (PQsendQuery(c, sql.c_str()) != 1) fail();
    while (PQflush(c) == 1) co_await socket_.async_wait(descriptor::wait_write, asio::use_awaitable);
    result last;
    for (;;) {
      while (PQisBusy(c) == 1) {
        co_await socket_.async_wait(descriptor::wait_read, asio::use_awaitable);
        if (PQconsumeInput(c) != 1) fail();
      }
      result next{PQgetResult(c)};
      if (!next) break;
      last = std::move(next);
    }
    auto const status = PQresultStatus(last.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail();
    co_return last;
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(PQerrorMessage(native_.get())); }
  std::unique_ptr<PGconn, closer> native_;
  descriptor socket_;
};

asio::awaitable<void> count(session& s, rowlock::mutex& counter, int times) {
  for (; times > 0; --times) {
    auto const lock = co_await counter.async_acquire(asio::use_awaitable);
    auto const n = co_await s.run("SELECT n + 1 FROM counter");
    co_await s.run("BEGIN");
    std::string const next = PQgetvalue(n.get(), 0, 0);
    co_await s.run("UPDATE counter SET n = " + next);
    for (auto const& guard : lock->guard_statements(rowlock::placeholders::none)) co_await s.run(guard.text);
    auto const end = co_await s.run("COMMIT");
    if (std::string(PQcmdStatus(end.get())) != "COMMIT") throw std::runtime_error("rolled back");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  rowlock::lock_manager manager{rowlock::postgresql::source{argv[1]}};
  auto counter = manager.make_mutex("counter");
  asio::io_context io;
  session s{io, argv[1]};
  std::exception_ptr why;
  asio::co_spawn(io, count(s, counter, std::stoi(argv[2])), [&](std::exception_ptr e) { why = e; });
  io.run();
  if (why) std::rethrow_exception(why);
  std::puts("counted");
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "guard_asio: not committed: %s\n", e.what());
  return 1;
}

// A scheduler on several hosts, of which the one that leads works: here it writes a row each second.
//
//   scheduler CONNINFO ADDRESS
//
//   CREATE TABLE ticks (at timestamptz NOT NULL DEFAULT clock_timestamp(), token bigint NOT NULL);
#include <libpq-fe.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <rowlock/election.hpp>
#include <rowlock/error.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

void run(PGconn* c, std::string const& sql) {
  std::unique_ptr<PGresult, decltype(&PQclear)> const r{PQexec(c, sql.c_str()), &PQclear};
  if (PQresultStatus(r.get()) != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(c));
}

/// One tick. @return false if another process may lead. Then nothing was written.
bool tick(PGconn* c, rowlock::postgresql::transaction& tx, rowlock::leadership& l) try {
  if (PQstatus(c) != CONNECTION_OK) PQreset(c);
  run(c, "BEGIN");
  run(c, "INSERT INTO ticks (token) VALUES (" + std::to_string(l.token().value) + ")");
  tx.execute_commit(l.lock());  // in doubt if its reply is lost: the tick may be there
  return true;
} catch (std::exception const& e) {
  // On a connection that is lost it fails, and must not hide `e`. The transaction is gone with it.
  std::unique_ptr<PGresult, decltype(&PQclear)> const undone{PQexec(c, "ROLLBACK"), &PQclear};
  auto const* const known = dynamic_cast<rowlock::error const*>(&e);
  if (known != nullptr && known->reason() == rowlock::errc::lock_lost) return false;
  std::fprintf(stderr, "scheduler: %s; the next tick comes in a second\n", e.what());
  return true;
}

/// The work: until it is told to stop, or sees that another process may lead.
void schedule(PGconn* c, rowlock::postgresql::transaction& tx, rowlock::leadership& l, std::stop_token stop) {
  std::printf("leading, token %lld\n", static_cast<long long>(l.token().value));
  std::fflush(stdout);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  do {
    if (!tick(c, tx, l)) return;
  } while (!wake.wait_for(lock, stop, 1s, [&] { return stop.stop_requested(); }));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  sigset_t ends;
  sigemptyset(&ends);
  for (int const signal : {SIGINT, SIGTERM}) sigaddset(&ends, signal);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before there are threads, which inherit it

  std::unique_ptr<PGconn, decltype(&PQfinish)> const own{PQconnectdb(argv[1]), &PQfinish};
  rowlock::lock_manager manager{rowlock::postgresql::source{argv[1]}};
  rowlock::postgresql::transaction tx{manager, own.get()};
  // Whoever asks election::leader(), or `rowlock leader scheduler`, is told the address.
  rowlock::election e{
      manager, "scheduler", {.ttl = 5s, .value = argv[2], .on_overrun = [] { std::abort(); }}};
  std::jthread const candidate([&](std::stop_token stop) {
    try {
      e.run([&](rowlock::leadership& l, std::stop_token told) { schedule(own.get(), tx, l, told); }, stop);
    } catch (std::exception const& what) {
      std::fprintf(stderr, "scheduler: %s\n", what.what());
      std::_Exit(1);
    }
  });
  int signal = 0;
  return sigwait(&ends, &signal);  // then the candidate is told to stop, and resigns
} catch (std::exception const& e) {
  std::fprintf(stderr, "scheduler: %s\n", e.what());
  return 1;
}

// Counts, over libpqxx, by transactions that commit only while a lock is held.
//
//   guard_pqxx CONNINFO TIMES
//
//   CREATE TABLE counter (n integer NOT NULL);
#include <cstdio>
#include <exception>
#include <pqxx/pqxx>
#include <rowlock/lock_manager.hpp>
#include <rowlock/mutex.hpp>
#include <rowlock/postgresql.hpp>
#include <string>

namespace {

int read_counter(pqxx::connection& c) {
  pqxx::work tx{c};
  return tx.exec("SELECT n FROM counter")[0][0].as<int>();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  rowlock::lock_manager manager{rowlock::postgresql::source{argv[1]}};
  auto counter = manager.make_mutex("counter");
  pqxx::connection c{argv[1]};
  for (int i = std::stoi(argv[2]); i > 0; --i) {
    auto const lock = counter.acquire();
    int const n = read_counter(c);  // under the lock, with no transaction open
    pqxx::work tx{c};
    tx.exec("UPDATE counter SET n = " + pqxx::to_string(n + 1));
    // Last before COMMIT. An exception leaves no COMMIT behind: `tx` rolls back.
    for (auto const& guard : lock->guard_statements(rowlock::placeholders::none)) tx.exec(guard.text);
    tx.commit();
  }
  std::puts("counted");
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "guard_pqxx: not committed: %s\n", e.what());
  return 1;
}

// Takes a lock with a pool of SOCI's sessions on SQLite, then prints what is mapped into this process.
#include <soci/connection-pool.h>
#include <soci/session.h>
#include <soci/sqlite3/soci-sqlite3.h>

#include <fstream>
#include <iostream>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/soci.hpp>

int main(int, char** argv) {
  soci::connection_pool pool(3);
  for (std::size_t i = 0; i < 3; ++i) pool.at(i).open(soci::sqlite3, argv[1]);
  rowlock::soci::source const source(pool);
  rowlock::migrator(source).up();
  rowlock::lock_manager locks(source);
  if (!locks.make_mutex("x").try_acquire()) return 1;
  std::cout << std::ifstream("/proc/self/maps").rdbuf();
}

// Takes a lock with the SQLite back end alone, then prints what is mapped into this process.
#include <fstream>
#include <iostream>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/sqlite.hpp>

int main(int, char** argv) {
  rowlock::sqlite::source const source(argv[1]);
  rowlock::migrator(source).up();
  rowlock::lock_manager locks(source);
  if (!locks.make_mutex("x").try_acquire()) return 1;
  std::cout << std::ifstream("/proc/self/maps").rdbuf();
}

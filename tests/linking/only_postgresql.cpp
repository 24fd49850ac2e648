// Makes a manager with the PostgreSQL back end alone, then prints what is mapped into this process.
#include <fstream>
#include <iostream>
#include <rowlock/lock_manager.hpp>
#include <rowlock/postgresql.hpp>

int main(int, char** argv) {
  rowlock::lock_manager locks{rowlock::postgresql::source{argv[1]}};
  std::cout << std::ifstream("/proc/self/maps").rdbuf();
}

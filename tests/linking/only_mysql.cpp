// Makes a manager with the back end for MySQL and MariaDB alone, then prints what is mapped into this
// process.
#include <fstream>
#include <iostream>
#include <rowlock/lock_manager.hpp>
#include <rowlock/mysql.hpp>

int main(int, char** argv) {
  rowlock::lock_manager locks{rowlock::mysql::source{argv[1]}};
  std::cout << std::ifstream("/proc/self/maps").rdbuf();
}

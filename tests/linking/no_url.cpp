// Asks for a manager by URL without the component that has all back ends.
#include <cstdio>
#include <rowlock/error.hpp>
#include <rowlock/lock_manager.hpp>

int main() try {
  rowlock::lock_manager const locks{"sqlite::memory:"};
  return 1;
} catch (rowlock::error const& e) {
  std::puts(e.what());
  return e.reason() == rowlock::errc::unsupported ? 0 : 2;
}

// rowlock-torture: see options.cpp. tools/torture builds it, starts servers, and calls it.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "options.hpp"
#include "printable.hpp"
#include "run.hpp"
#include "signals.hpp"

int main(int argc, char** argv) try {
  rowlock::torture::options o;
  if (auto const status = rowlock::torture::parse(argc, argv, o)) return *status;
  return rowlock::torture::run(o);
} catch (std::exception const& e) {
  rowlock::torture::on_stderr(fmt::format("rowlock-torture: {}\n", rowlock::torture::printable(e.what())));
  rowlock::torture::end_by_signal();
  return 2;
}

#include "support/innodb.hpp"

#include <fmt/format.h>

#include <thread>

#include "support/eventually.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

bool comes_to_wait(backend::connection& watch, std::int64_t session) {
  backend::statement const look{
      "executes",
      fmt::format("SELECT count(*) FROM information_schema.processlist WHERE id = {} AND command IN "
                  "('Execute', 'Query')",
                  session)};
  auto const executes = [&] {
    return backend::as_int(watch.execute(look, {}, boot_clock::now() + 30s).rows.at(0).at(0)) > 0;
  };
  return eventually([&] {
    // Far longer than any of our statements takes if nothing holds it up, also on a busy machine.
    for (int looks = 0; looks < 5; ++looks) {
      if (!executes()) return false;
      std::this_thread::sleep_for(25ms);
    }
    return executes();
  });
}

}  // namespace rowlock::test

// Statements longer than what the server takes.
#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <rowlock/rowlock.hpp>
#include <set>
#include <thread>

#include "contract/fixture.hpp"
#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr int names = 4000;

std::string long_name(int i) {
  auto const number = std::to_string(i);
  return number + std::string(255 - number.size(), 'n');
}

template <server_kind Kind>
struct on_small_packets {
  database_server server{Kind, {.settings = {"max_allowed_packet = 1M"}}};
};

using small_packets_on_mariadb = on_small_packets<server_kind::mariadb>;
using small_packets_on_mysql = on_small_packets<server_kind::mysql>;

}  // namespace

TYPE_TO_STRING_AS("mariadb", small_packets_on_mariadb);
TYPE_TO_STRING_AS("mysql", small_packets_on_mysql);

TEST_CASE_TEMPLATE("C7: 4000 locks with the longest names, and a server that takes 1 MiB: all are renewed",
                   Server, small_packets_on_mariadb, small_packets_on_mysql) {
  Server const s;
  migrator(source_from_url(s.server.address())).up();
  std::mutex mutex;
  std::set<std::string> renewed;
  int lost = 0;
  std::string trouble;
  manager_options o;
  o.on_event = [&](event const& e) {
    std::lock_guard const guard(mutex);
    if (e.kind == event_kind::renewed) renewed.emplace(e.name);
    if (e.kind == event_kind::lost) ++lost;
    if (e.kind == event_kind::error) trouble = e.message;
  };
  lock_manager m(s.server.address(), o);
  std::vector<acquisition> held;
  for (int i = 0; i < names; ++i) held.push_back(m.make_mutex(long_name(i), {.ttl = 30s}).acquire());
  {
    std::lock_guard const guard(mutex);
    renewed.clear();
  }
  CHECK(eventually(
      [&] {
        std::lock_guard const guard(mutex);
        return renewed.size() == names || lost > 0;
      },
      120s));
  std::lock_guard const guard(mutex);
  CAPTURE(trouble);
  CHECK(renewed.size() == names);
  CHECK(lost == 0);
}

// In a network namespace of its own, with a server in it, whose only interface goes down under established
// connections: no packet arrives any more, none is acknowledged, and nobody is told. A program, because a
// namespace is a process's:
//   unshare --net rowlock_dropped postgresql|mariadb|mysql
// Prints a line for each role, and how long it was blocked; exit status 0 if all was as it should be.
#include <unistd.h>

#include <atomic>
#include <future>
#include <iostream>
#include <rowlock/rowlock.hpp>
#include <thread>

#include "outages/own_network.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

template <class Call>
void report_failure(char const* role, Call const& call) {
  auto const start = clock_type::now();
  try {
    call();
    report(role, start, "succeeded", false);
  } catch (error const& e) {
    bool const expected = e.reason() == errc::unreachable || e.reason() == errc::in_doubt;
    report(role, start, e.code().message(), expected);
  }
}

void play(server_kind kind) {
  set_loopback(true);
  database_server server(kind);
  migrator(source_from_url(server.address())).up();
  manager_options o;
  o.reply_timeout = 3s;
  o.release_timeout = 3s;
  lock_manager m(server.address(), o);
  lock_manager others(server.address(), o);
  auto held = m.make_mutex("held", {.ttl = 300s}).acquire();
  auto given_back = m.make_mutex("given back", {.ttl = 300s}).acquire();
  auto brief = m.make_mutex("brief", {.ttl = 6s}).acquire();
  auto row = m.make_mutex("row", {.strategy = strategy::row_lock, .ttl = 6s}).acquire();
  (void)others.list();

  set_loopback(false);
  report_failure("try_acquire", [&] { (void)others.make_mutex("x").try_acquire(); });
  report_failure("try_acquire_for 200 ms", [&] { (void)others.make_mutex("x").try_acquire_for(200ms); });
  report_failure("list", [&] { (void)others.list(); });
  auto start = clock_type::now();
  auto const came = given_back->release();
  report("release", start, to_string(came), came == release_result::in_doubt);
  std::stop_source stop;
  std::atomic<int> thread{0};
  auto waiter = std::async(std::launch::async, [&] {
    thread = ::gettid();
    return others.make_mutex("y").acquire(stop.get_token()).status();
  });
  (void)comes_to_rest(thread);
  start = clock_type::now();
  stop.request_stop();
  auto const status = waiter.get();
  report("cancelled acquire", start, to_string(status), status == acquire_status::cancelled);
  auto const told = [&](char const* role, held_lock const& lock, loss_reason why) {
    auto const since = clock_type::now();
    (void)eventually([&] { return lock.loss().has_value(); });
    report(role, since, lock.loss() ? to_string(*lock.loss()) : "not told", lock.loss() == why);
  };
  told("holder of a lease of 6 s", *brief, loss_reason::database_unreachable);
  told("holder of a row lock", *row, loss_reason::session_ended);

  set_loopback(true);
  report("holder of a lease of 300 s", clock_type::now(), held->valid() ? "held" : "lost", held->valid());
  start = clock_type::now();
  for (auto const* name : {"x", "given back", "brief", "row"}) {
    auto const lock =
        others
            .make_mutex(name, {.strategy = name == std::string("row") ? strategy::row_lock : strategy::lease})
            .try_acquire_for(30s);
    report(name, start, lock ? "taken, mended" : "not taken", bool(lock));
  }
  report("giving back, mended", clock_type::now(), "", held->release() == release_result::released);
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const kind = argc == 2 ? argv[1] : "";
  if (kind != "postgresql" && kind != "mariadb" && kind != "mysql") {
    std::cerr << "usage: unshare --net rowlock_dropped postgresql|mariadb|mysql\n";
    return 64;
  }
  play(kind == "postgresql" ? server_kind::postgresql
       : kind == "mariadb"  ? server_kind::mariadb
                            : server_kind::mysql);
  return all_good ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}

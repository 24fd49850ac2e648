// The file beside an SQLite database, in which processes line up: what becomes of it, and of those that stand
// there, when processes are killed, stopped and forked, and when the file is tampered with.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "support/eventually.hpp"
#include "support/threads.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;
using backend::queue_entry;
using namespace std::chrono_literals;

struct scene {
  std::unique_ptr<database> d = make_database(kind::sqlite);
  std::string path = d->url().substr(d->url().find(':') + 1);
  std::string beside = path + "-rowlock";

  queue_entry enter(backend::connection& c, int ms, std::stop_token stop = {}) const {
    return c.enter_queue(d->tables(), "x", "who", in(ms), 5s, std::move(stop));
  }
  bool is_waited_for(backend::connection& c) const { return c.is_waited_for(d->tables(), "x"); }
  std::future<queue_entry> stand(backend::connection& c) const {
    return std::async(std::launch::async, [this, &c] {
      thread = ::gettid();
      return enter(c, 20'000);
    });
  }
  mutable std::atomic<int> thread{0};  ///< the one that stands there
  std::string content() const {
    std::ifstream in(beside, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

/// Another process that goes to the wait queue. It says so just before, and when it is there.
std::unique_ptr<child> neighbour(scene const& s) {
  return std::make_unique<child>([&s](child& self) {
    auto const c = s.d->connect();
    self.tell();
    if (s.enter(*c, 20'000) == queue_entry::not_mine) return 1;
    self.tell();
    self.hear();
    c->leave_queue(in(20'000));
    return 0;
  });
}

/// It sleeps in the kernel, for the wait queue.
bool sleeps_in_futex(pid_t p) {
  std::ifstream in(fs::path("/proc") / std::to_string(p) / "syscall");
  std::string number;
  return in >> number && number == "202";
}

}  // namespace

TEST_CASE("sqlite wait queues: the file is made for the first one who waits, with the database's mode") {
  scene const s;
  REQUIRE(::chmod(s.path.c_str(), 0640) == 0);
  auto const c = s.d->connect();
  CHECK_FALSE(s.is_waited_for(*c));
  CHECK_FALSE(fs::exists(s.beside));
  REQUIRE(s.enter(*c, 20'000) == queue_entry::was_free);
  struct stat found {};
  REQUIRE(::stat(s.beside.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777U) == 0640U);
  CHECK(found.st_size < 20'000);
  CHECK(s.content().starts_with("rowlock: who waits"));
}

TEST_CASE("sqlite wait queues: whoever is killed with the wait queue lets the next one in") {
  scene const s;
  auto killed = neighbour(s);
  killed->hear();
  killed->hear();
  auto const c = s.d->connect();
  CHECK(s.is_waited_for(*c));
  auto waits = s.stand(*c);
  REQUIRE(comes_to_rest(s.thread));
  killed.reset();
  CHECK(waits.get() == queue_entry::in_its_turn);
}

TEST_CASE("sqlite wait queues: whoever is killed in line is in nobody's way, and is not heard of any more") {
  scene const s;
  auto const first = s.d->connect();
  auto const c = s.d->connect();
  REQUIRE(s.enter(*first, 20'000) == queue_entry::was_free);
  auto killed = neighbour(s);
  killed->hear();
  REQUIRE(eventually([&] { return sleeps_in_futex(killed->pid()); }));
  auto waits = s.stand(*c);
  killed.reset();
  REQUIRE(eventually([&] { return s.is_waited_for(*first); }));  // it does not see its own wait queue
  CHECK(first->leave_queue(in(20'000)));
  CHECK(waits.get() == queue_entry::in_its_turn);
  CHECK_FALSE(c->leave_queue(in(20'000)));
}

// It is woken, and does not take the wait queue; and it has its place in line for as long as it is stopped.
TEST_CASE("sqlite wait queues: whoever is stopped in line costs each of the others milliseconds") {
  scene const s;
  auto const c = s.d->connect();
  REQUIRE(s.enter(*c, 20'000) == queue_entry::was_free);
  auto const stopped = neighbour(s);
  stopped->hear();
  REQUIRE(eventually([&] { return sleeps_in_futex(stopped->pid()); }));
  REQUIRE(::kill(stopped->pid(), SIGSTOP) == 0);
  REQUIRE(::waitpid(stopped->pid(), nullptr, WUNTRACED) == stopped->pid());
  auto const start = boot_clock::now();
  for (int round = 0; round < 200; ++round) {
    CHECK(c->leave_queue(in(20'000)));
    CHECK(s.enter(*c, 20'000) == queue_entry::in_its_turn);
  }
  CHECK(boot_clock::now() - start <
        30s);  // 2 s; 40 s at least if it waited as for a wait queue that is taken
  REQUIRE(::kill(stopped->pid(), SIGCONT) == 0);
  c->leave_queue(in(20'000));
  stopped->hear();
  stopped->tell();
  CHECK(stopped->join() == 0);
}

TEST_CASE("sqlite wait queues: a forked child keeps no wait queue of its parent's") {
  scene const s;
  auto const c = s.d->connect();
  auto const other = s.d->connect();
  REQUIRE(s.enter(*c, 20'000) == queue_entry::was_free);
  child const lives([](child& self) {
    self.tell();
    self.hear();
    return 0;
  });
  lives.hear();
  CHECK(s.enter(*other, 50) == queue_entry::not_mine);
  c->close();
  CHECK(s.enter(*other, 20'000) == queue_entry::was_free);
}

TEST_CASE("sqlite wait queues: a child that is forked during a wait can use SQLite") {
  scene const s;
  auto const first = s.d->connect();
  auto const c = s.d->connect();
  REQUIRE(s.enter(*first, 20'000) == queue_entry::was_free);
  auto waits = s.stand(*c);
  REQUIRE(
      eventually([&] { return s.is_waited_for(*c) && waits.wait_for(20ms) == std::future_status::timeout; }));
  child uses([&](child&) { return s.d->connect()->usable() ? 0 : 1; });
  CHECK(uses.join() == 0);
  first->leave_queue(in(20'000));
  CHECK(waits.get() == queue_entry::in_its_turn);
}

TEST_CASE("sqlite wait queues: those that come after the file was removed use another one") {
  scene const s;
  auto const a = s.d->connect();
  auto const b = s.d->connect();
  REQUIRE(s.enter(*a, 20'000) == queue_entry::was_free);
  REQUIRE(fs::remove(s.beside));
  CHECK(s.enter(*b, 20'000) == queue_entry::was_free);
  a->leave_queue(in(20'000));
  CHECK(s.enter(*a, 50) == queue_entry::not_mine);
  CHECK(s.is_waited_for(*a));
}

TEST_CASE(
    "sqlite wait queues: C55: a file that is cut short under those who wait ends no process, and goes on "
    "serving") {
  scene const s;
  auto const a = s.d->connect();
  auto const b = s.d->connect();
  REQUIRE(s.enter(*a, 20'000) == queue_entry::was_free);
  auto waits = s.stand(*b);
  REQUIRE(comes_to_rest(s.thread));
  fs::resize_file(s.beside, 0);
  a->leave_queue(in(20'000));
  CHECK(waits.get() == queue_entry::in_its_turn);
  CHECK(s.enter(*a, 50) == queue_entry::not_mine);
  b->leave_queue(in(20'000));
  CHECK(s.enter(*a, 20'000) == queue_entry::was_free);
  CHECK(s.content().starts_with("rowlock: who waits"));
}

TEST_CASE("sqlite wait queues: another file by that name is left as it is") {
  scene const s;
  auto const c = s.d->connect();
  auto const refused = [&] {
    auto const e = thrown_by([&] { s.enter(*c, 20'000); });
    CHECK(says(e, s.beside));
    CHECK_FALSE(e.retryable());
    CHECK(c->usable());
  };
  std::ofstream(s.beside) << "dear diary";
  refused();
  CHECK(s.content() == "dear diary");
  fs::remove(s.beside);
  std::ofstream(s.beside) << std::string(100'000, '\0');
  refused();
  CHECK(fs::file_size(s.beside) == 100'000);
  fs::rename(s.beside, s.beside + "2");
  fs::resize_file(s.beside + "2", 0);
  fs::create_symlink(s.beside + "2", s.beside);
  refused();
  fs::remove(s.beside);
  fs::create_hard_link(s.beside + "2", s.beside);
  refused();
  CHECK(fs::file_size(s.beside + "2") == 0);
  fs::remove(s.beside);
  fs::create_directory(s.beside);
  refused();
  fs::remove(s.beside);
  REQUIRE(::mkfifo(s.beside.c_str(), 0600) == 0);
  refused();
  fs::remove(s.beside);
  CHECK(s.enter(*c, 20'000) == queue_entry::was_free);
}

TEST_CASE("sqlite wait queues: who may not write in the folder hears so") {
  scene const s;
  fs::permissions(fs::path(s.path).parent_path(), fs::perms(0755));
  child nobody([&](child&) {
    auto const c = s.d->connect();
    if (::setegid(65534) != 0 || ::seteuid(65534) != 0) return 2;
    auto const e = thrown_by([&] { s.enter(*c, 20'000); });
    return e.reason() == errc::access_denied && says(e, s.beside) ? 0 : 1;
  });
  CHECK(nobody.join() == 0);
}

TEST_CASE("sqlite wait queues: what there is too little of just now is asked for again") {
  scene const s;
  child poor([&](child&) {
    auto const c = s.d->connect();
    rlimit const none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
    auto const e = thrown_by([&] { s.enter(*c, 20'000); });
    return e.retryable() && says(e, s.beside) && c->usable() ? 0 : 1;
  });
  CHECK(poor.join() == 0);
}

TEST_CASE("sqlite wait queues: a wait ends when it is stopped") {
  scene const s;
  auto const a = s.d->connect();
  auto const b = s.d->connect();
  REQUIRE(s.enter(*a, 20'000) == queue_entry::was_free);
  auto const start = boot_clock::now();
  for (int round = 0; round < 200; ++round) {
    std::stop_source stop;
    auto waits = std::async(std::launch::async, [&] { return s.enter(*b, 20'000, stop.get_token()); });
    if (round % 2 == 0) REQUIRE(eventually([&] { return s.is_waited_for(*a); }));
    stop.request_stop();
    CHECK(waits.get() == queue_entry::not_mine);
  }
  CHECK_FALSE(a->leave_queue(in(20'000)));
  CHECK(boot_clock::now() - start < 30s);  // 40 s: each looks by itself after 0.2 s at the earliest
}

TEST_CASE("sqlite wait queues: C54: whoever leaves wakes the next one, and does not overtake it") {
  scene const s;
  auto const a = s.d->connect();
  auto const b = s.d->connect();
  int served = 0;
  int woken = 0;
  // On a machine that is too busy to wake one in 10 ms one round or the other shows nothing.
  auto const until = in(60'000);
  for (int round = 0; round < 40 || ((served < 10 || woken < 5) && boot_clock::now() < until); ++round) {
    REQUIRE(s.enter(*a, 20'000) != queue_entry::not_mine);
    auto const start = boot_clock::now();
    auto waits = s.stand(*b);
    REQUIRE(eventually([&] { return s.is_waited_for(*a); }));
    CHECK(a->leave_queue(in(20'000)));
    if (s.enter(*a, 50) == queue_entry::not_mine)
      ++served;
    else
      a->leave_queue(in(20'000));
    CHECK(waits.get() == queue_entry::in_its_turn);
    woken += boot_clock::now() - start < 200ms;  // each looks by itself after that at the earliest
    b->leave_queue(in(20'000));
  }
  CHECK(served >= 10);
  CHECK(woken >= 5);
}

}  // namespace rowlock::test

// sqlite::memory:, for tests of programs that use rowlock. The whole suite was run on it once: it differs
// from a file in that readers wait for a transaction that has written, as they do without a WAL.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "contract/fixture.hpp"
#include "contract/no_memory.hpp"
#include "holding/watchdog.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::optional<errc> refused(connection_source const& source) {
  try {
    (void)lock_manager(source).make_mutex("x").try_acquire();
    return std::nullopt;
  } catch (error const& e) {
    return e.reason();
  }
}

}  // namespace

TEST_CASE("sqlite::memory: is one migrated database, shared by the manager's connections") {
  manager_options o;
  o.connections = 4;
  o.table_prefix = "app_";
  lock_manager m("sqlite::memory:", o);
  strategy how{};
  SUBCASE("lease") { how = strategy::lease; }
  SUBCASE("unique_insert") { how = strategy::unique_insert; }
  int plain = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        auto counter = m.make_mutex("counter", {.strategy = how, .ttl = 60s});
        for (int n = 0; n < 25; ++n) {
          auto const lock = counter.acquire();
          plain = plain + 1;
        }
      });
  }
  CHECK(plain == 100);
  auto const renewed = m.make_mutex("renewed", {.strategy = how, .ttl = 6s}).acquire();
  auto const trust = *renewed->trusted_until();
  CHECK(eventually([&] { return *renewed->trusted_until() > trust; }));  // on the keeper's own connection
}

TEST_CASE("sqlite::memory: managers of one source exclude each other; other sources are others") {
  auto const source = source_from_url("sqlite::memory:");
  CHECK(refused(source) == errc::schema_missing);
  migrator(source).up();
  lock_manager one(source);
  lock_manager other(source);
  auto const lock = one.make_mutex("x").acquire();
  CHECK_FALSE(
      std::async(std::launch::async, [&] { return bool(other.make_mutex("x").try_acquire()); }).get());
  CHECK(other.list().size() == 1);
  CHECK(refused(source_from_url("sqlite::memory:")) == errc::schema_missing);
}

TEST_CASE("sqlite::memory: a forked child is refused: it has a copy, which would exclude nobody") {
  lock_manager m("sqlite::memory:");
  auto const source = source_from_url("sqlite::memory:");
  migrator(source).up();
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool const good = refused(source) == errc::forked;
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("current() and unlock() need no memory: there would be nobody to tell that there is none") {
  lock_manager m("sqlite::memory:");
  auto x = m.make_mutex("x", {.ttl = 6s});
  x.lock();
  {
    no_memory const none;
    auto const* const lock = x.current();
    if (lock == nullptr || !lock->valid()) std::abort();  // doctest would need some
  }
  // The statement that gives it back fails for want of memory: then the term ends by its expiry.
  {
    no_memory const none;
    x.unlock();
  }
  CHECK(x.current() == nullptr);
  CHECK(eventually([&] { return bool(m.make_mutex("x").try_acquire()); }));
}

TEST_CASE("the end of a watchdog needs no memory") {
  sessions::events const nobody({});
  holding::watchdog w(nobody);
  std::vector<std::shared_ptr<holding::hold>> held;
  for (int i = 0; i < 100; ++i) {
    holding::grant_facts f;
    f.name = "name";
    f.term = {"term"};
    f.ttl = 60s;
    f.sent_at = boot_clock::now();
    held.push_back(std::make_shared<holding::hold>(std::move(f), waiting::local_queue::turn()));
    REQUIRE(w.watch(held.back()));
  }
  std::vector<std::shared_ptr<holding::hold>> left;
  {
    no_memory const none;
    left = w.close();
  }
  CHECK(left == held);
  CHECK_FALSE(w.watch(held.front()));
}

TEST_CASE("whenever memory runs out once, the call throws or goes on, and leaves nothing taken") {
  auto const source = source_from_url("sqlite::memory:");
  migrator(source).up();
  lock_manager m(source);
  mutex_options const o{.ttl = 1h};
  auto x = m.make_mutex("a", o);
  std::function<void()> call;
  SUBCASE("one lock") {
    call = [&] { (void)x.try_acquire(); };
  }
  SUBCASE("lock and unlock") {
    call = [&] {
      x.lock();
      x.unlock();
    };
  }
  auto readers = m.make_shared_mutex("r", o);
  SUBCASE("a reader") {
    call = [&] { (void)readers.try_acquire_shared(); };
  }
  auto job = m.make_mutex("j", {.ttl = 1h, .owner = takes_over{"job-7"}});
  SUBCASE("an owner that comes back") {
    call = [&] {
      auto const former = job.try_acquire();
      (void)job.try_acquire();
    };
  }
  SUBCASE("several at once") {
    call = [&] { (void)m.try_acquire_all({"a", "b", "c"}, o); };
  }
  call();
  int refused_in = 0;
  for (int granted = 0;; ++granted) {
    CAPTURE(granted);
    bool happened = false;
    bool thrown = false;
    {
      memory_runs_out const here(granted);
      try {
        call();
      } catch (std::bad_alloc const&) {
        thrown = true;
      } catch (error const&) {
        thrown = true;
      }
      happened = here.has_happened();
    }
    x.unlock();
    REQUIRE(eventually([&] { return m.list().empty(); }));
    CHECK((happened || !thrown));
    if (!happened) break;
    ++refused_in;
  }
  MESSAGE(refused_in, " times");
}

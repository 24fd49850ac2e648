// Traps of asynchronous calls that other libraries fell into (lib/doc/traps.md, F), as far as the cases of
// asynchronous.cpp and asynchronous_ends.cpp do not show them.
#include <set>
#include <thread>

#include "contract/async_loop.hpp"
#include "contract/permits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

task gives_back(held_lock& lock, executor const& where, std::optional<release_result>& said) {
  said = co_await lock.async_release(where);
}

/// Tells the threads that connect, and lets connecting fail.
class watched_source final : public backend::source {
 public:
  explicit watched_source(connection_source const& s) : inner_(s.implementation()) {}
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    on_connect();
    return inner_->connect(deadline);
  }
  backend::dialect const& sql() const noexcept override { return inner_->sql(); }
  std::string describe() const override { return inner_->describe(); }
  slot<> on_connect;

 private:
  std::shared_ptr<backend::source> inner_;
};

}  // namespace

CONTRACT_CASE(
    "async: F4: a call that is cancelled while it waits for a connection leaves both to the next one") {
  stranger other(f);
  auto const source = std::make_shared<watched_source>(observed_by(f.source, f.probe));
  auto const goes_on = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> connects{false};
  source->on_connect = [&, goes_on] {
    connects = true;
    (void)eventually([&] { return goes_on->load(); });
  };
  outcome got;
  outcome next;
  std::stop_source stop;
  loop l;
  auto o = f.options;
  o.connections = 1;
  lock_manager m{connection_source(source), o};
  auto x = m.make_mutex("x");
  x.async_acquire(l.where(), got.handler(), stop.get_token());
  x.async_acquire(l.where(), next.handler());
  REQUIRE(eventually([&] { return connects.load(); }));
  stop.request_stop();
  l.turn();  // before there is a connection
  CHECK(got.status() == acquire_status::cancelled);
  CHECK(other.sees_free("x"));
  *goes_on = true;
  l.turn();
  REQUIRE(next.has());
  CHECK(got.calls == 1);
  next.came.reset();
  CHECK(eventually([&] { return other.sees_free("x"); }));
  CHECK(l.waiting() == 0);
}

CONTRACT_CASE("async: F5: no cancellation reaches a release") {
  stranger other(f);
  auto const goes_on = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> asked{false};
  outcome got;
  outcome waits;
  std::stop_source stop;
  std::optional<release_result> said;
  loop l;
  auto m = f.manager();
  auto const where = l.where();
  auto x = m->make_mutex("x");
  x.async_acquire(where, got.handler(), stop.get_token());
  l.turn();
  REQUIRE(got.has());
  f.probe->before = [&, goes_on](std::string const& s) {
    if (s != "lock_release") return;
    asked = true;
    (void)eventually([&] { return goes_on->load(); });
  };
  auto gives = gives_back(**got.came, where, said);
  REQUIRE(eventually([&] { return asked.load(); }));
  bool hears = true;
  SUBCASE("the token of its take is stopped") { stop.request_stop(); }
  SUBCASE("the coroutine is destroyed") {
    hears = false;
    gives.end();
  }
  SUBCASE("the manager ends") {
    x.async_acquire(where, waits.handler());
    std::jthread const ends([&] { m.reset(); });
    l.turn();
    CHECK(waits.status() == acquire_status::cancelled);
    *goes_on = true;
  }
  *goes_on = true;
  l.turn();
  CHECK(said.has_value() == hears);
  if (said) CHECK(*said == release_result::released);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEASE_CASE("async: F6: renewal begins with the grant, whatever the loop does, and ends with the release") {
  stranger other(f);
  outcome got;
  outcome next;
  loop l;
  auto const m = f.manager();
  m->make_mutex("x", {.ttl = 1s}).async_acquire(l.where(), got.handler());
  REQUIRE(l.comes());
  auto const token = other.token("x");
  REQUIRE(eventually([&] { return other.read("x")->renewals >= 3; }));
  l.turn();
  REQUIRE(got.has());
  CHECK((*got.came)->token().value == token);
  got.came.reset();
  REQUIRE(eventually([&] { return other.sees_free("x"); }));
  // Nobody renews what somebody else has now.
  REQUIRE(other.take("x"));
  m->make_mutex("y", {.ttl = 1s}).async_acquire(l.where(), next.handler());
  l.turn();
  REQUIRE(next.has());
  REQUIRE(eventually([&] { return other.read("y")->renewals >= 3; }));
  CHECK(other.read("x")->renewals == 0);
}

CONTRACT_CASE("async: F7: whichever question fails, the call completes once") {
  std::atomic<int> left{0};
  std::atomic<int> failures{0};
  loop l;
  f.probe->before = [&](std::string const&) {
    if (left > 0 && --left == 0) {
      ++failures;
      throw error(errc::unreachable, "the statement fails by the test");
    }
  };
  SUBCASE("before it is sent") {}
  SUBCASE("its reply is lost") {
    f.probe->after = [&](std::string const&) {
      if (left > 0 && --left == 0) {
        ++failures;
        lose_reply();
      }
    };
    f.probe->before = nullptr;
  }
  std::vector<std::string> const names{"a", "b"};
  mutex_options const options;
  int n = 0;
  do {
    failures = 0;
    outcome one;
    outcome waits;
    answer<acquisition_of_all> all;
    answer<bool> is_free;
    auto m = f.manager();
    auto const each = [&](auto const& begins, auto const& calls) {
      left = n + 1;
      begins();
      l.turn();
      left = 0;
      CHECK(calls() == 1);
    };
    each([&] { m->make_mutex("x").async_try_acquire(l.where(), one.handler()); }, [&] { return one.calls; });
    each([&] { m->make_mutex("y").async_acquire_for(2s, l.where(), waits.handler()); },
         [&] { return waits.calls; });
    if (leases(pair))
      each([&] { m->async_try_acquire_all(names, options, l.where(), all.handler()); },
           [&] { return all.calls; });
    each([&] { m->make_mutex("z").async_wait_until_free_for(2s, l.where(), is_free.handler()); },
         [&] { return is_free.calls; });
    CHECK(l.waiting() == 0);
    ++n;
  } while (failures > 0);
  CHECK(n > 2);
}

CONTRACT_CASE("async: F8: any thread gives back what came by the loop") {
  stranger other(f);
  outcome got;
  outcome again;
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::jthread([&] { x.async_acquire(l.where(), got.handler()); }).join();
  std::jthread([&] { l.turn(); }).join();
  REQUIRE(got.has());
  auto result = release_result::already_lost;
  std::jthread([&] { result = (*got.came)->release(); }).join();
  CHECK(result == release_result::released);
  CHECK(other.sees_free("x"));
  x.async_acquire(l.where(), again.handler());
  l.turn();
  CHECK(again.has());
}

CONTRACT_CASE("async: F9: a connection that can't be made fails one call, and the others go on") {
  auto const source = std::make_shared<watched_source>(f.source);
  std::atomic<int> tries{0};
  std::atomic<bool> goes_on{false};
  source->on_connect = [&] {
    if (tries++ > 0) return;
    CHECK(eventually([&] { return goes_on.load(); }));
    throw error(errc::unreachable, "no connection by the test");
  };
  std::vector<outcome> all(3);
  loop l;
  auto o = f.options;
  o.connections = 1;
  lock_manager m{connection_source(source), o};
  auto x = m.make_mutex("x");
  for (auto& one : all) x.async_try_acquire(l.where(), one.handler());
  CHECK(eventually([&] { return tries == 1; }));
  goes_on = true;
  int granted = 0;
  int failed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) l.turn();
  for (auto& one : all) {
    CHECK(one.calls == 1);
    if (one.failed) ++failed;
    if (one.has()) ++granted;
  }
  CHECK(failed == 1);
  CHECK(granted == 1);
  CHECK(l.waiting() == 0);
}

EVERY_CASE("async: F10: calls that wait keep no thread from a release") {
  constexpr int many = 12;
  stranger other(f);
  auto o = f.options;
  o.connections = 2;
  o.queue_connections = 2;
  o.row_lock_connections = 4;
  std::vector<outcome> all(many);
  answer<release_result> released;
  outcome got;
  std::stop_source stop;
  loop l;
  auto const m = f.manager(o);
  auto mine = m->make_mutex("mine");
  mine.async_acquire(l.where(), got.handler());
  l.turn();
  REQUIRE(got.has());
  REQUIRE(other.take("x"));
  auto x = m->make_mutex("x");
  for (auto& one : all) x.async_acquire(l.where(), one.handler(), stop.get_token());
  REQUIRE(eventually([&] { return f.waited(1); }));
  (*got.came)->async_release(l.where(), released.handler());
  l.turn();
  CHECK(released.came == release_result::released);
  stop.request_stop();
  for (std::size_t i = 0; i < all.size(); ++i) l.turn();
  for (auto const& one : all) CHECK(one.status() == acquire_status::cancelled);
}

CONTRACT_CASE("async: F13: neither a connection nor a question is the calling thread's, nor the loop's") {
  auto const source = std::make_shared<watched_source>(observed_by(f.source, f.probe));
  std::mutex mutex;
  std::set<std::thread::id> threads;
  auto const notes = [&] {
    std::lock_guard const guard(mutex);
    threads.insert(std::this_thread::get_id());
  };
  source->on_connect = notes;
  f.probe->before = [&](std::string const&) { notes(); };
  outcome got;
  loop l;
  lock_manager m{connection_source(source), f.options};
  m.make_mutex("x").async_acquire(l.where(), got.handler());
  l.turn();
  REQUIRE(got.has());
  got.came.reset();
  CHECK(eventually([&] { return f.probe->executed("lock_release") == 1; }));
  std::lock_guard const guard(mutex);
  CHECK(threads.size() >= 1);
  CHECK_FALSE(threads.contains(std::this_thread::get_id()));
}

namespace {

template <class Names, class Options>
concept awaits_all = requires(lock_manager& m, Names&& names, Options&& options, executor const& where) {
  m.async_acquire_all(std::forward<Names>(names), std::forward<Options>(options), where);
};
template <class Where>
concept awaits_one = requires(mutex& m, Where&& where) {
  { m.async_acquire(std::forward<Where>(where)) } -> std::same_as<async_result<acquisition>>;
};

}  // namespace

TEST_CASE(
    "async: F24: what is awaited takes its options, names and executor by reference, and no temporary") {
  using names = std::vector<std::string>;
  CHECK(awaits_all<names const&, mutex_options const&>);
  CHECK_FALSE(awaits_all<names const&, mutex_options>);
  CHECK_FALSE(awaits_all<names, mutex_options const&>);
  CHECK(awaits_one<executor const&>);
  CHECK_FALSE(awaits_one<executor>);
}

// Asynchronous calls without a place in a wait queue: one statement watches all their names.
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <utility>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr int names = 12;

std::string name(int n) { return "name-" + std::to_string(100 + n); }

/// A call for each of the names; its grants stay.
class calls {
 public:
  explicit calls(lock_manager& m, mutex_options const& o = {}) {
    for (int n = 0; n < names; ++n)
      m.make_mutex(name(n), o)
          .async_acquire(
              on_library_thread,
              [this, n](std::exception_ptr const& e, acquisition a) {
                std::lock_guard const guard(mutex_);
                ++ended_;
                if (e) ++failed_;
                if (!e && a) granted_.emplace(n, std::move(*a));
                come_.notify_all();
              },
              stop_.get_token());
  }
  bool all_end() {
    return until([this] { return ended_ == names; });
  }
  bool has(int n) {
    return until([this, n] { return granted_.contains(n); });
  }
  std::size_t granted() const {
    std::lock_guard const guard(mutex_);
    return granted_.size();
  }
  int ended() const {
    std::lock_guard const guard(mutex_);
    return ended_;
  }
  int failed() const {
    std::lock_guard const guard(mutex_);
    return failed_;
  }
  void stop() { stop_.request_stop(); }

 private:
  template <class Condition>
  bool until(Condition c) {
    std::unique_lock lock(mutex_);
    return come_.wait_for(lock, 60s, c);
  }
  mutable std::mutex mutex_;
  std::condition_variable come_;
  int ended_ = 0;
  int failed_ = 0;
  std::map<int, held_lock> granted_;
  std::stop_source stop_;
};

/// Whether this thread is about to ask, or has just asked, for the rows of several names. The probe's other
/// slots see only "lock_read", as for one name.
thread_local bool is_look = false;

manager_options without_queue(fixture const& f) {
  auto o = f.options;
  o.queue_connections = 0;
  return o;
}

/// Whether a further look has been answered that names all of them.
class looks {
 public:
  explicit looks(fixture& f) : probe_(*f.probe) {
    probe_.look = [this](std::string const& s, std::span<backend::value const> p) {
      auto const* const first = s == "lock_read" ? std::get_if<std::string>(&p.front()) : nullptr;
      is_look = first != nullptr && first->starts_with('[');
      if (!is_look) return;
      ++all_;
      auto const& list = *first;
      bool all = true;
      for (int n = 0; n < names; ++n) all = all && list.find('"' + name(n) + '"') != std::string::npos;
      if (all) ++of_all_;
    };
  }
  ~looks() { probe_.look = nullptr; }
  looks(looks const&) = delete;
  looks& operator=(looks const&) = delete;
  bool come(int more) {
    auto const before = of_all_.load();
    return eventually([&] { return of_all_ >= before + more; });
  }
  int in_all() const { return all_; }

 private:
  statement_probe& probe_;
  std::atomic<int> all_{0};
  std::atomic<int> of_all_{0};
};

void take_all(stranger& other, takeover how = takeover::clock, std::chrono::milliseconds ttl = 300s) {
  for (int n = 0; n < names; ++n) REQUIRE(other.take(name(n), ttl, how));
}

}  // namespace

CONTRACT_CASE("async, many: one statement watches all names, and a release is noticed") {
  stranger other(f);
  take_all(other);
  looks seen(f);
  auto const m = f.manager(without_queue(f));
  calls all(*m);
  REQUIRE(seen.come(2));
  CHECK(all.ended() == 0);
  auto const before = seen.in_all();
  CHECK(other.release(name(3)));
  CHECK(all.has(3));
  // By its own pace the call would come after 30 looks, on average.
  CHECK(seen.in_all() <= before + 8);
  CHECK(all.granted() == 1);
  all.stop();
  CHECK(all.all_end());
}

CONTRACT_CASE("async, many: a hint that never comes is survived") {
  stranger other(f);
  take_all(other);
  looks seen(f);
  std::mutex mutex;
  std::optional<backend::row_list> first;
  std::atomic<bool> fails{false};
  std::atomic<int> lied{0};
  f.probe->before = [&](std::string const&) {
    if (is_look && fails) throw error(errc::unreachable, "the look fails by the test");
  };
  f.probe->reply = [&](std::string const&, backend::result& r) {
    if (!is_look) return;
    std::lock_guard const guard(mutex);
    if (r.rows.size() == names && !first) first = r.rows;
    if (!first) return;
    r.rows = *first;
    ++lied;
  };
  SUBCASE("the looks show what was") {}
  SUBCASE("the looks fail") { fails = true; }
  auto const m = f.manager(without_queue(f));
  calls all(*m);
  CHECK(eventually([&] { return fails ? seen.in_all() > 1 : lied > 1; }));
  for (int n = 0; n < names; ++n) CHECK(other.release(name(n)));
  CHECK(all.all_end());
  CHECK(all.granted() == names);
}

CONTRACT_CASE("async, many: a watched name is taken over after silence") {
  stranger other(f);
  take_all(other, takeover::observed, 2s);
  looks seen(f);
  auto const m = f.manager(without_queue(f));
  mutex_options o;
  o.takeover = takeover::observed;
  calls all(*m, o);
  REQUIRE(seen.come(1));
  CHECK(other.renew(name(5)));
  CHECK(all.has(5));
  CHECK(all.all_end());
  CHECK(all.granted() == names);
}

CONTRACT_CASE("async, many: watched calls are cancelled, and completed at the manager's end") {
  stranger other(f);
  take_all(other);
  std::atomic<bool> hangs{false};
  std::atomic<bool> goes_on{false};
  f.probe->after = [&](std::string const&) {
    if (!is_look || goes_on) return;
    hangs = true;
    (void)eventually([&] { return goes_on.load(); });
  };
  looks seen(f);
  auto m = f.manager(without_queue(f));
  auto all = std::make_unique<calls>(*m);
  SUBCASE("cancelled during a look") {
    REQUIRE(eventually([&] { return hangs.load(); }));
    all->stop();
    CHECK(all->all_end());
    goes_on = true;
  }
  SUBCASE("cancelled between looks") {
    goes_on = true;
    REQUIRE(seen.come(2));
    all->stop();
    CHECK(all->all_end());
    // The name is watched for another call afterwards.
    auto again = std::make_unique<calls>(*m);
    CHECK(seen.come(1));
    CHECK(other.release(name(0)));
    CHECK(again->has(0));
    again->stop();
    CHECK(again->all_end());
  }
  SUBCASE("ended during a look") {
    REQUIRE(eventually([&] { return hangs.load(); }));
    std::jthread const later([&] {
      CHECK(all->all_end());
      goes_on = true;
    });
    m.reset();
  }
  SUBCASE("ended between looks") {
    goes_on = true;
    REQUIRE(seen.come(2));
    m.reset();
    CHECK(all->all_end());
  }
  CHECK(all->granted() == 0);
  CHECK(all->failed() == 0);
}

PAIRS_CASE("async, many: C50: a name that goes from hand to hand gets a place in the wait queue",
           all<in_rows, on_a_server, direct>) {
  REQUIRE(f.connect()->has_queues());
  stranger other(f);
  stranger another(f, "another");
  REQUIRE(other.take(name(0), 300s));
  REQUIRE(other.take(name(1), 300s));
  auto o = f.options;
  o.queue_connections = 1;
  std::atomic<bool> watched{false};
  f.probe->look = [&](std::string const& s, std::span<backend::value const> p) {
    auto const* const list = s == "lock_read" ? std::get_if<std::string>(&p.front()) : nullptr;
    if (list != nullptr && list->find('"' + name(1) + '"') != std::string::npos) watched = true;
  };
  std::array<std::atomic<int>, 2> ended{};
  std::stop_source stop;
  auto const m = f.manager(o);
  auto const begin = [&](int n) {
    m->make_mutex(name(n)).async_acquire(
        on_library_thread,
        [&ended, n](std::exception_ptr const&, acquisition const& a) {
          CHECK(a);
          ++ended.at(static_cast<std::size_t>(n));
        },
        stop.get_token());
  };
  begin(0);
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
  begin(1);
  REQUIRE(eventually([&] { return watched.load(); }));
  // It is never free, so an attempt without a place would never get it.
  bool others_turn = true;
  CHECK(eventually([&] {
    (void)(std::exchange(others_turn, !others_turn) ? another : other).take_over(name(1));
    return f.probe->executed("enter_queue") >= 2;
  }));
  CHECK((other.release(name(1)) || another.release(name(1))));
  CHECK(eventually([&] { return ended[1] == 1; }));
  CHECK(other.release(name(0)));
  CHECK(eventually([&] { return ended[0] == 1; }));
}

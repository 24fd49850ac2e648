// Takes and releases of several threads that go to the database together: lib/doc/together.md.

#include <set>
#include <thread>

#include "contract/open_transaction.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::size_t many = 12;
constexpr auto odd_ttl = 25s;  // of every second one: what is not alike does not go together

std::string name_of(std::size_t i) { return "n" + std::to_string(10 + i); }

/// So many threads, each with a name of its own, and one connection for all of them. The statement of a
/// thread that came before them is held up until they have come.
class crowd {
 public:
  explicit crowd(fixture& f) : f_(f), manager_(make(f)) {
    // The rows stay, so that each take is one statement.
    for (std::size_t i = 0; i < many; ++i) (void)manager_->make_mutex(name_of(i)).try_acquire();
    (void)manager_->make_mutex("first").try_acquire();
    f_.probe->before = [this](std::string const& s) { before(s); };
    f_.probe->look = [this](std::string const& s, std::span<backend::value const> p) { look(s, p); };
    f_.probe->after = [this](std::string const& s) {
      if (watched(s) && lost_.exchange(false)) lose_reply();
    };
  }
  ~crowd() {
    f_.probe->before = nullptr;
    f_.probe->after = nullptr;
    f_.probe->look = nullptr;
  }

  lock_manager& manager() { return *manager_; }
  /// Of the next statement by that name that is not the one that is held up.
  void lose_the_reply_to_the_second() { lose_second_ = true; }

  /// All take at once. @return how many statements that took
  int take() {
    got_.clear();
    got_.resize(many);
    return together(
        "lock_take", [&](std::size_t i) { return [this, i] { got_.at(i) = take_one(i); }; },
        [&] { first_ = manager_->make_mutex("first").acquire(); });
  }
  int give_back() {
    released_.assign(many, release_result::already_lost);
    return together(
        "lock_release",
        [&](std::size_t i) { return [this, i] { released_.at(i) = (*got_.at(i)->lock)->release(); }; },
        [&] { (void)(*first_)->release(); });
  }

  struct taken {
    std::optional<acquisition> lock{};
    std::int64_t thread = 0;
  };
  taken const& got(std::size_t i) const { return *got_.at(i); }
  release_result released(std::size_t i) const { return released_.at(i); }
  /// How many of the statements that were sent since the last take() or give_back() have this in them.
  std::ptrdiff_t sent(std::string const& part) {
    std::lock_guard const guard(mutex_);
    return std::count_if(sent_.begin(), sent_.end(), [&](auto const& s) { return s.find(part) != s.npos; });
  }

 private:
  static std::unique_ptr<lock_manager> make(fixture& f) {
    auto few = f.options;
    few.connections = 1;
    return f.manager(few);
  }
  std::optional<taken> take_one(std::size_t i) {
    taken t;
    mutex_options mine;
    if (i % 2 == 1) mine.ttl = odd_ttl;
    t.lock.emplace(manager_->make_mutex(name_of(i), std::move(mine)).acquire());
    return t;
  }
  void look(std::string const& s, std::span<backend::value const> parameters) {
    if (!watched(s) || parameters.empty()) return;
    std::lock_guard const guard(mutex_);
    sent_.push_back(backend::as_text(parameters.front()));
  }
  void watch(std::string const& s) {
    std::lock_guard const guard(mutex_);
    watched_ = s;
    if (!s.empty()) sent_.clear();
  }
  bool watched(std::string const& s) {
    std::lock_guard const guard(mutex_);
    return s == watched_;
  }
  void before(std::string const& s) {
    if (!watched(s)) return;
    auto const n = ++seen_;
    if (n == 1) {
      held_up_ = true;
      CHECK(eventually([&] { return open_.load(); }));
    }
    if (n == 2 && lose_second_.exchange(false)) lost_ = true;
  }
  template <class One, class First>
  int together(std::string const& statement, One one, First first) {
    seen_ = 0;
    open_ = false;
    held_up_ = false;
    watch(statement);
    f_.probe->reset();
    {
      std::vector<std::jthread> all;
      all.emplace_back(first);
      CHECK(eventually([&] { return held_up_.load(); }));
      std::atomic<std::size_t> come{0};
      for (std::size_t i = 0; i < many; ++i)
        all.emplace_back([&come, what = one(i)] {
          ++come;
          what();
        });
      CHECK(eventually([&] { return come == many; }));
      CHECK(others_come_to_rest());  // they stand in line
      open_ = true;
    }
    watch({});  // what the renewer sends later is none of these
    return f_.probe->executed(statement) - 1;
  }

  fixture& f_;
  std::mutex mutex_;
  std::string watched_;
  std::vector<std::string> sent_;  ///< their first parameters
  std::atomic<int> seen_{0};
  std::atomic<bool> open_{false};
  std::atomic<bool> held_up_{false};
  std::atomic<bool> lost_{false};
  std::atomic<bool> lose_second_{false};
  std::unique_ptr<lock_manager> manager_;  ///< its threads use what stands above
  std::optional<acquisition> first_;
  std::vector<std::optional<taken>> got_;
  std::vector<release_result> released_;
};

}  // namespace

LEASE_CASE("together: threads that wait for a connection take and give back in few statements") {
  stranger other(f);
  crowd c(f);
  auto const takes = c.take();
  CHECK((takes <= 6 || f.dispatched()));  // as many go together as there are workers
  std::set<std::string> terms;
  std::set<std::int64_t> threads;
  for (std::size_t i = 0; i < many; ++i) {
    auto const& lock = *c.got(i).lock;
    REQUIRE(lock);
    auto const row = other.read(name_of(i));
    CHECK(row->term == lock->term());
    CHECK(row->holder.token == lock->token());
    CHECK(row->longest == (i % 2 == 1 ? odd_ttl : 30s));
    CHECK(lock->valid());
    CHECK_FALSE(other.take(name_of(i)));
    terms.insert(row->term.value);
    threads.insert(row->holder.owner.thread);
  }
  CHECK(terms.size() == many);
  CHECK(threads.size() == many);
  CHECK(c.give_back() <= 4);
  for (std::size_t i = 0; i < many; ++i) {
    CHECK(c.released(i) == release_result::released);
    CHECK(other.sees_free(name_of(i)));
  }
}

LEASE_CASE("together: what is held, locked or not there is asked for by itself, and the others have theirs") {
  stranger other(f);
  crowd c(f);
  REQUIRE(other.take(name_of(3), 500ms));
  REQUIRE(other.take(name_of(5)));
  REQUIRE(other.release(name_of(5)));
  c.take();
  for (std::size_t i = 0; i < many; ++i) {
    REQUIRE(*c.got(i).lock);
  }
  c.give_back();
}

PAIRS_CASE("together: a row that a transaction has locked keeps nobody else waiting",
           ([](running_pair const& p) { return leases(p) && on_a_server(p); })) {
  stranger other(f);
  crowd c(f);
  std::optional<open_transaction> t(std::in_place, f);
  t->run("UPDATE rowlock_locks SET note = 'x' WHERE name = '" + name_of(3) + "'");
  std::jthread const ends([&] {
    CHECK(eventually([&] {
      for (std::size_t i = 0; i < many; ++i)
        if (i != 3 && other.sees_free(name_of(i))) return false;
      return true;
    }));
    t->commit();
  });
  c.take();
  for (std::size_t i = 0; i < many; ++i) {
    CHECK(*c.got(i).lock);
    if (i != 3) CHECK(c.sent(name_of(i)) == 1);  // nobody had to ask again
  }
}

LEASE_CASE("together: a take whose reply is lost: each finds out by its own term") {
  stranger other(f);
  crowd c(f);
  c.lose_the_reply_to_the_second();
  c.take();
  for (std::size_t i = 0; i < many; ++i) {
    auto const& lock = *c.got(i).lock;
    REQUIRE(lock);
    CHECK(other.read(name_of(i))->term == lock->term());
    CHECK(other.read(name_of(i))->holder.token == lock->token());
  }
  // With the terms of the statement whose reply was lost: nobody had to wait for the end of its own.
  std::ptrdiff_t found = 0;
  for (std::size_t i = 0; i < many; ++i)
    if (c.sent(name_of(i)) == 1) ++found;
  CHECK(found == static_cast<std::ptrdiff_t>(many));
}

LEASE_CASE("together: a release whose reply is lost is in doubt for each of them, and none stays") {
  stranger other(f);
  crowd c(f);
  c.take();
  c.lose_the_reply_to_the_second();
  c.give_back();
  int in_doubt = 0;
  for (std::size_t i = 0; i < many; ++i)
    if (c.released(i) == release_result::in_doubt) ++in_doubt;
  CHECK(in_doubt >= 1);
  for (std::size_t i = 0; i < many; ++i) CHECK(eventually([&] { return other.sees_free(name_of(i)); }));
}

LEASE_CASE("together: a release touches no other's term") {
  stranger other(f);
  crowd c(f);
  c.take();
  REQUIRE(other.take_over(name_of(4)));
  c.give_back();
  for (std::size_t i = 0; i < many; ++i) {
    if (i == 4) {
      CHECK(c.released(i) == release_result::already_lost);
      CHECK(other.has_still(name_of(i)));
    } else {
      CHECK(c.released(i) == release_result::released);
    }
  }
}

LEASE_CASE("together: tokens rise in each name's own order, for those that draw some for others, too") {
  crowd c(f);
  std::array<std::int64_t, many> last{};
  for (int round = 0; round < 3; ++round) {
    c.take();
    for (std::size_t i = 0; i < many; ++i) {
      auto const now = (*c.got(i).lock)->token().value;
      CHECK(now > last.at(i));
      last.at(i) = now;
    }
    c.give_back();
  }
}

LEASE_CASE("together: who is stopped in line has nothing, and the end of the manager ends all") {
  stranger other(f);
  auto few = f.options;
  few.connections = 1;
  std::atomic<bool> open{false};
  std::atomic<bool> held_up{false};
  auto m = f.manager(few);
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_take" || held_up.exchange(true)) return;
    CHECK(eventually([&] { return open.load(); }));
  };
  {
    std::jthread const first([&] { (void)m->make_mutex("first").acquire(); });
    REQUIRE(eventually([&] { return held_up.load(); }));
    std::atomic<bool> ended{false};
    std::jthread stopped([&](std::stop_token const& s) {
      CHECK_FALSE(m->make_mutex("a").acquire(s));
      ended = true;
    });
    std::jthread const behind([&] { CHECK(m->make_mutex("b").acquire()); });
    std::this_thread::sleep_for(30ms);
    stopped.request_stop();
    CHECK(eventually([&] { return ended.load(); }));
    open = true;
  }
  f.probe->before = nullptr;
  CHECK_FALSE(other.read("a"));
  m.reset();
  CHECK(other.sees_free("b"));
}

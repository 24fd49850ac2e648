// Elections, from outside: who leads, who is told to stop, and what observers see.

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <rowlock/election.hpp>
#include <thread>
#include <vector>

#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

election_options called(std::string value, election_options o = {}) {
  o.value = std::move(value);
  return o;
}

/// Campaigns on a thread of its own. Its work goes on until it is told to stop, or, if it is stubborn, until
/// it may.
class candidate {
 public:
  explicit candidate(lock_manager& m, election_options o = {}, bool stubborn = false)
      : stubborn_(stubborn), e_(m, "x", std::move(o)), thread_([this](std::stop_token s) {
          led_ = e_.run([this](leadership& l, std::stop_token stop) { work(l, std::move(stop)); }, s);
          ended_ = true;
        }) {}
  ~candidate() { let_go(); }

  bool leads() const { return leads_; }
  int terms() const { return terms_; }
  bool was_told() const { return told_; }
  bool comes_to_lead(int term = 1) const {
    return eventually([&] { return leads() && terms() == term; });
  }
  bool comes_to_an_end() const {
    return eventually([&] { return ended_.load(); });
  }
  bool led() const { return led_; }
  election& itself() { return e_; }
  void stop() { thread_ = {}; }
  void let_go() {
    std::lock_guard const guard(mutex_);
    may_go_ = true;
    wake_.notify_all();
  }
  /// What it says while it leads.
  template <class F>
  void as_leader(F const& f) {
    std::lock_guard const guard(mutex_);
    REQUIRE(now_ != nullptr);
    f(*now_);
  }
  void resigns_if_it_leads() {
    std::lock_guard const guard(mutex_);
    if (now_ != nullptr) now_->resign();
  }
  /// How much trust was left when it was told to stop.
  boot_clock::duration left_when_told() const { return boot_clock::duration(left_.load()); }

 private:
  void work(leadership& l, std::stop_token stop) {
    told_ = false;
    auto const be_told = [&] {
      if (told_) return;
      left_ = (l.trusted_until() - boot_clock::now()).count();
      told_ = true;
    };
    std::stop_callback const on_stop(stop, be_told);
    std::unique_lock lock(mutex_);
    now_ = &l;
    ++terms_;
    leads_ = true;
    wake_.wait(lock, stop, [] { return false; });
    be_told();  // the wait may have ended before the callback was run, which would then be gone with this
    wake_.wait(lock, [this] { return !stubborn_ || may_go_; });
    leads_ = false;
    now_ = nullptr;
  }

  bool const stubborn_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool may_go_ = false;
  leadership* now_ = nullptr;
  std::atomic<bool> leads_{false}, told_{false}, ended_{false}, led_{false};
  std::atomic<int> terms_{0};
  std::atomic<boot_clock::rep> left_{0};
  election e_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

LEASE_CASE("election: one leads, the next one after it; observers see who, since when, with rising tokens") {
  auto const m = f.manager();
  auto const n = f.manager();
  CHECK_FALSE(find_leader(*m, "x"));
  candidate a(*m, called("at a"));
  REQUIRE(a.comes_to_lead());
  candidate b(*n, called("at b"));
  auto const first = b.itself().leader();
  REQUIRE(first);
  CHECK(first->value == "at a");
  CHECK_FALSE(first->host.empty());
  CHECK(first->pid == ::getpid());
  CHECK(first->since.time_since_epoch().count() > 0);
  a.as_leader([&](leadership& l) {
    CHECK(l.token() == first->token);
    CHECK(l.trusted_until() > boot_clock::now());
    CHECK(l.lock().valid());
  });
  CHECK(b.terms() == 0);
  a.stop();
  CHECK(a.led());
  REQUIRE(b.comes_to_lead());
  auto const second = a.itself().leader();
  REQUIRE(second);
  CHECK(second->value == "at b");
  CHECK(second->token > first->token);
  b.stop();
  CHECK_FALSE(find_leader(*m, "x"));
}

LEASE_CASE("election: who resigns is told to stop, comes after the others, and leads again after them") {
  auto const m = f.manager();
  auto const n = f.manager();
  candidate a(*m, called("at a"));
  REQUIRE(a.comes_to_lead());
  candidate b(*n, called("at b"));
  a.as_leader([](leadership& l) { l.resign(); });
  REQUIRE(b.comes_to_lead());
  CHECK(a.was_told());
  CHECK_FALSE(a.leads());
  CHECK(a.terms() == 1);
  // Both have paused since about the same moment: b may be the first to come back.
  CHECK(eventually([&] {
    b.resigns_if_it_leads();
    return a.leads() && a.terms() == 2;
  }));
}

LEASE_CASE("election: after a term others have the time to come first, also if they stand in no line") {
  std::atomic<boot_clock::rep> released{0}, taken{0};
  auto const m = f.manager();
  f.probe->look = [&](std::string const& s, std::span<backend::value const>) {
    auto const now = boot_clock::now().time_since_epoch().count();
    if (s == "lock_release") released = now;
    if (s == "lock_take") taken = now;
  };
  candidate a(*m);
  REQUIRE(a.comes_to_lead());
  a.as_leader([](leadership& l) { l.resign(); });
  REQUIRE(a.comes_to_lead(2));
  CHECK(released > 0);
  CHECK(taken - released > boot_clock::duration(900ms).count());
  f.probe->look = nullptr;
}

LEASE_CASE("election: work that ignores that it is to stop keeps its term, and has none beside it") {
  stranger other(f);
  auto const m = f.manager();
  std::atomic<int> overruns{0};
  candidate a(*m, {.ttl = 9s, .stop_within = 100ms, .on_overrun = [&] { ++overruns; }}, true);
  REQUIRE(a.comes_to_lead());
  a.as_leader([](leadership& l) { l.resign(); });
  CHECK(a.was_told());
  REQUIRE(eventually([&] { return overruns == 1; }));
  // Renewed for as long as the work goes on.
  auto const before = other.read("x")->renewals;
  CHECK(eventually([&] { return other.read("x")->renewals > before + 1; }));
  CHECK_FALSE(other.take("x"));
  CHECK(a.leads());
  CHECK(a.terms() == 1);
  CHECK(overruns == 1);
  a.let_go();
  CHECK(a.comes_to_lead(2));
}

LEASE_CASE("election: a leader that lost its lock is told, and waits for the other one") {
  stranger other(f);
  auto const m = f.manager();
  candidate a(*m, {.ttl = 9s}, true);
  REQUIRE(a.comes_to_lead());
  REQUIRE(other.take_over("x"));
  REQUIRE(eventually([&] { return a.was_told(); }));
  a.as_leader([](leadership& l) {
    CHECK(l.trusted_until() <= boot_clock::now());
    CHECK_FALSE(l.set_value("late"));
  });
  CHECK(other.read("x")->holder.note.empty());
  a.let_go();
  CHECK(eventually([&] { return !a.leads(); }));
  CHECK(a.terms() == 1);
  REQUIRE(other.release("x"));
  CHECK(a.comes_to_lead(2));
}

LEASE_CASE("election: an operator takes leadership away; nobody else has it before the work has ended") {
  stranger other(f);
  auto const m = f.manager();
  candidate a(*m, {.ttl = 9s}, true);
  REQUIRE(a.comes_to_lead());
  REQUIRE(m->revoke("x", revoke_mode::at_renewal));
  REQUIRE(eventually([&] { return a.was_told(); }));
  CHECK_FALSE(other.take("x"));
  a.let_go();
  CHECK(eventually([&] { return !a.leads(); }));
  CHECK(a.comes_to_lead(2));
}

LEASE_CASE("election: if no renewal comes, the work is told as long before trust ends as it needs") {
  auto const m = f.manager();
  candidate a(*m, {.ttl = 8s, .stop_within = 3s});
  REQUIRE(a.comes_to_lead());
  f.probe->before = [](std::string const& s) {
    if (s == "lock_renew") throw error(errc::unreachable, "cut off by the test");
  };
  REQUIRE(eventually([&] { return a.was_told(); }));
  CHECK(a.left_when_told() > 1s);
  CHECK(a.left_when_told() <= 3s);
  f.probe->before = nullptr;
}

LEASE_CASE("election: who is ill does not campaign, and resigns") {
  auto const m = f.manager();
  auto const n = f.manager();
  std::atomic<bool> well{false};
  std::atomic<int> asked{0};
  auto const health = [&] {
    ++asked;
    if (!well && asked % 2 == 0) throw std::runtime_error("very ill");
    return well.load();
  };
  candidate a(*m, {.healthy = health, .health_interval = 20ms});
  REQUIRE(eventually([&] { return asked > 4; }));
  CHECK(f.probe->executed("lock_take") == 0);
  well = true;
  REQUIRE(a.comes_to_lead());
  candidate b(*n);
  well = false;
  REQUIRE(b.comes_to_lead());
  CHECK(a.was_told());
  CHECK(a.terms() == 1);
  b.stop();
  well = true;
  CHECK(a.comes_to_lead(2));
}

LEASE_CASE("election: who became ill while it waited gives back what it has won, without having led") {
  stranger other(f);
  auto const m = f.manager();
  std::atomic<bool> well{true};
  REQUIRE(other.take("x"));
  candidate a(*m, {.healthy = [&] { return well.load(); }, .health_interval = 20ms});
  REQUIRE(eventually([&] { return f.waited(1); }));
  well = false;
  REQUIRE(other.release("x"));
  CHECK(eventually([&] { return f.probe->executed("lock_release") > 0; }));
  CHECK(eventually([&] { return other.take("x"); }));
  CHECK(a.terms() == 0);
}

LEASE_CASE("election: one term only; stopped before it led; work that throws has resigned") {
  auto const m = f.manager();
  stranger other(f);
  election once(*m, "x", {.again = false});
  int terms = 0;
  CHECK(once.run([&](leadership&, std::stop_token) { ++terms; }));
  CHECK(terms == 1);
  CHECK(other.sees_free("x"));
  std::stop_source stopped;
  stopped.request_stop();
  CHECK_FALSE(once.run([&](leadership&, std::stop_token) { ++terms; }, stopped.get_token()));
  CHECK(terms == 1);
  election throwing(*m, "x");
  CHECK_THROWS_AS(
      throwing.run([](leadership&, std::stop_token) { throw std::domain_error("of the work's"); }),
      std::domain_error);
  CHECK(other.sees_free("x"));
}

LEASE_CASE("election: run() is refused while another run() of the object is under way, and without work") {
  auto const m = f.manager();
  candidate a(*m);
  REQUIRE(a.comes_to_lead());
  auto const why = [&](election::work const& w) {
    try {
      a.itself().run(w);
    } catch (error const& e) {
      return e.reason();
    }
    return errc::failed;
  };
  CHECK(why([](leadership&, std::stop_token) {}) == errc::would_deadlock);
  CHECK(why({}) == errc::invalid_argument);
  CHECK(a.leads());
}

LEASE_CASE("election: the end of the lock_manager ends a term, and the campaign") {
  auto m = f.manager();
  auto const n = f.manager();
  candidate a(*m);
  REQUIRE(a.comes_to_lead());
  m.reset();
  CHECK(a.comes_to_an_end());
  CHECK(a.was_told());
  CHECK_FALSE(find_leader(*n, "x"));
}

LEASE_CASE("election: options out of range are refused") {
  auto const m = f.manager();
  for (auto const& o : std::vector<election_options>{{.ttl = 1ms},
                                                     {.value = std::string(1025, 'v')},
                                                     {.health_interval = 1ms},
                                                     {.ttl = 10s, .stop_within = 5001ms},
                                                     {.stop_within = -1ms}})
    CHECK_THROWS_AS(election(*m, "x", o), error);
  CHECK_THROWS_AS(leader_watch(
                      *m, "x", [](auto const&) {}, 1ms),
                  error);
  CHECK_THROWS_AS(leader_watch(*m, "x", nullptr), error);
}

LEASE_CASE("leader_watch: tells each leader and each value once, and that nobody leads") {
  auto const m = f.manager();
  auto const n = f.manager();
  std::mutex mutex;
  std::vector<std::string> told;
  auto const last_told = [&](std::string const& what, std::size_t how_many) {
    return eventually([&] {
      std::lock_guard const guard(mutex);
      return told.size() == how_many && told.back() == what;
    });
  };
  leader_watch const w(
      *n, "x",
      [&](std::optional<leader_info> const& l) {
        std::lock_guard const guard(mutex);
        told.push_back(l ? l->value : "nobody");
        throw std::runtime_error("dropped");
      },
      10ms);
  REQUIRE(last_told("nobody", 1));
  candidate a(*m, called("first"));
  REQUIRE(last_told("first", 2));
  REQUIRE(a.comes_to_lead());
  a.as_leader([](leadership& l) { CHECK(l.set_value("second")); });
  REQUIRE(last_told("second", 3));
  a.stop();
  REQUIRE(last_told("nobody", 4));
}

LEASE_CASE(
    "a leader whose term is over by the database's clock leads no more, and one that is to go still does") {
  auto const m = f.manager();
  stranger other(f);
  REQUIRE(other.take("x"));
  REQUIRE(m->revoke("x", revoke_mode::at_renewal));
  CHECK(find_leader(*m, "x"));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1));
  CHECK_FALSE(find_leader(*m, "x"));
}

CONTRACT_CASE("set_note: the term's own row says so, and nothing else has changed") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.note = "old"});
  auto lock = x.acquire();
  auto const before = other.read("x");
  REQUIRE(before->holder.note == "old");
  for (auto const* note : {"new", "new", "", "\xf0\x9f\x94\x92 'quoted' \\ \"\n"}) {
    CHECK(lock->set_note(note));
    CHECK(other.read("x")->holder.note == note);
  }
  auto const after = other.read("x");
  CHECK(after->term == before->term);
  CHECK(after->holder.token == before->holder.token);
  CHECK(after->renewals == before->renewals);
  for (auto const& bad : {std::string(1025, 'n'), std::string("\xff"), std::string("a\0b", 3)})
    CHECK_THROWS_AS((void)lock->set_note(bad), error);
  CHECK(lock->valid());
  REQUIRE(lock->release() == release_result::released);
  CHECK_FALSE(lock->set_note("late"));
}

CONTRACT_CASE("set_note: of a term that was taken over meanwhile it changes nothing, and tells of the loss") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.note = "ours"});
  auto lock = x.acquire();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_set_note") CHECK(other.take_over("x"));
  };
  CHECK_FALSE(lock->set_note("late"));
  f.probe->before = nullptr;
  CHECK(lock->loss() == loss_reason::taken_over);
  CHECK(other.read("x")->holder.note.empty());
  CHECK(other.has_still("x"));
}

CONTRACT_CASE(
    "set_note: one that waited for a takeover meets nothing, and one that waited for a renewal is done") {
  for (bool const taken : {true, false}) {
    stranger holder(f);
    REQUIRE(holder.take("x"));
    open_transaction t(f);
    t.run(taken ? "UPDATE rowlock_locks SET term = 'third', note = 'theirs'"
                : "UPDATE rowlock_locks SET renewals = renewals + 1");
    wait_view view(f, holder.session());
    std::atomic<int> thread{0};
    bool done = taken;
    std::jthread waiter([&] {
      thread = ::gettid();
      done = holder.set_note("x", "ours");
    });
    CHECK(view.shows_it(thread));  // for a second at most
    t.commit();
    waiter.join();
    CHECK(done == !taken);
    CHECK(holder.read("x")->holder.note == (taken ? "theirs" : "ours"));
    f.sql("DELETE FROM rowlock_locks");
  }
}

CONTRACT_CASE("set_note: a reply that was lost is in doubt, and a second call is as good as one") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  f.probe->after = [](std::string const& s) {
    if (s == "lock_set_note") lose_reply();
  };
  CHECK_THROWS_AS((void)lock->set_note("new"), error);
  f.probe->after = nullptr;
  CHECK(lock->valid());
  CHECK(lock->set_note("new"));
  CHECK(other.read("x")->holder.note == "new");
}

ROW_LOCK_CASE("set_note: refused for row_lock, which writes nothing") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  try {
    (void)lock->set_note("n");
    FAIL("not refused");
  } catch (error const& e) {
    CHECK(e.reason() == errc::unsupported);
  }
}

// The check has a thread of its own, which is waited for at the end of a term.
LEASE_CASE(
    "election: a health check that is slow makes no overrun of work that has returned, and keeps nobody from "
    "leading") {
  std::atomic<bool> slow{false}, may_go_on{false};
  std::atomic<int> overruns{0}, in_check{0};
  auto const m = f.manager();
  auto const n = f.manager();
  election_options o;
  o.ttl = 3s;
  o.stop_within = 1s;
  o.health_interval = 10ms;
  o.healthy = [&] {
    if (!slow) return true;
    ++in_check;
    CHECK(eventually([&] { return may_go_on.load(); }, 60s));
    return true;
  };
  o.on_overrun = [&] { ++overruns; };
  candidate a(*m, o);
  REQUIRE(a.comes_to_lead());
  slow = true;
  REQUIRE(eventually([&] { return in_check > 0; }));
  auto const told_at = boot_clock::now();
  a.as_leader([](leadership& l) { l.resign(); });
  REQUIRE(eventually([&] { return !a.leads(); }));
  auto const returned_at = boot_clock::now();
  candidate b(*n);
  CHECK(b.comes_to_lead());
  CHECK(eventually([&] { return boot_clock::now() > returned_at + 2 * o.stop_within; }));
  if (returned_at - told_at < o.stop_within) CHECK(overruns == 0);
  slow = false;
  may_go_on = true;
}

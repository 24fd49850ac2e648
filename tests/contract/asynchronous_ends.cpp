// What becomes of asynchronous calls of each kind when their process forks, when their manager ends, and when
// the lock that they wait for ends just then.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "contract/async_loop.hpp"
#include "contract/by_hand.hpp"
#include "contract/permits.hpp"
#include "holding/hold.hpp"
#include "manager/free_wait.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using loss = std::optional<loss_reason>;

/// What became of a handler.
struct fate {
  std::atomic<int> called{0};
  std::atomic<int> destroyed{0};
  std::string came;
};

std::string text_of(acquisition const& a) { return to_string(a.status()); }
std::string text_of(acquisition_of_all const& a) { return to_string(a.status()); }
std::string text_of(std::optional<elected> const& term) { return term ? "leads" : "does not lead"; }
std::string text_of(loss const& why) { return why ? to_string(*why) : "no loss"; }
std::string text_of(bool yes) { return yes ? "true" : "false"; }

class tells {
 public:
  explicit tells(fate& whom) : whom_(&whom) {}
  tells(tells&& other) noexcept : whom_(std::exchange(other.whom_, nullptr)) {}
  tells& operator=(tells&&) = delete;
  ~tells() {
    if (whom_ != nullptr) ++whom_->destroyed;
  }
  template <class Result>
  void operator()(std::exception_ptr const& failed, Result const& r) {
    whom_->came = failed ? "an exception" : text_of(r);
    ++whom_->called;
  }

 private:
  fate* whom_;
};

struct fates {
  fate takes, takes_all, free, leads, lost;
  std::array<fate*, 5> all{&takes, &takes_all, &free, &leads, &lost};

  bool each(int called, int destroyed) const {
    return std::all_of(all.begin(), all.end(),
                       [&](fate const* one) { return one->called == called && one->destroyed == destroyed; });
  }
};

/// The names that another program holds, so that the calls wait.
constexpr std::array wanted{"x", "y", "z", "scheduler"};

void take_wanted(stranger& other) {
  for (auto const* name : wanted) REQUIRE(other.take(name, 600s));
}

void release_wanted(stranger& other) {
  for (auto const* name : wanted) CHECK(other.release(name));
}

/// A call of each kind that waits, and a lock that one of them watches.
class waiting_calls {
 public:
  waiting_calls(lock_manager& m, executor const& where, fates& of)
      : manager_(m),
        x_(m.make_mutex("x")),
        y_(m.make_mutex("y")),
        candidate_(m, "scheduler", {}),
        mine_(take(m)) {
    x_.async_acquire(where, tells(of.takes));
    manager_.async_acquire_all(names_, options_, where, tells(of.takes_all));
    y_.async_wait_until_free_for(600s, where, tells(of.free));
    candidate_.async_campaign(where, tells(of.leads));
    mine_.async_lost(where, tells(of.lost));
  }
  held_lock& mine() { return mine_; }
  /// That each further call says so.
  bool are_refused(errc why, executor const& where, fates& of) {
    return reason([&] { x_.async_acquire(where, tells(of.takes)); }) == why &&
           reason([&] { manager_.async_acquire_all(names_, options_, where, tells(of.takes_all)); }) == why &&
           reason([&] { y_.async_wait_until_free_for(600s, where, tells(of.free)); }) == why &&
           reason([&] { candidate_.async_campaign(where, tells(of.leads)); }) == why &&
           reason([&] { mine_.async_lost(where, tells(of.lost)); }) == why &&
           reason([&] { manager_.async_close(where, tells(of.free)); }) == why;
  }

 private:
  static held_lock take(lock_manager& m) {
    auto got = m.make_mutex("mine").try_acquire();
    REQUIRE(got);
    return *std::move(got);
  }
  std::vector<std::string> const names_{"a", "z"};
  mutex_options const options_;
  lock_manager& manager_;
  mutex x_, y_;
  election candidate_;
  held_lock mine_;
};

/// In a forked child: other sockets in the places of its parent's.
class instead_of_sockets {
 public:
  instead_of_sockets() {
    for (int fd = 3; fd < 4096; ++fd) {
      struct stat what {};
      int ends[2];
      if (::fstat(fd, &what) != 0 || !S_ISSOCK(what.st_mode) || is_far_end(fd)) continue;
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || ::dup2(ends[0], fd) < 0) ::_exit(99);
      ::close(ends[0]);
      far_ends_.push_back(ends[1]);
    }
  }
  bool are_silent() const {
    return std::all_of(far_ends_.begin(), far_ends_.end(), [](int fd) {
      char any = 0;
      return ::recv(fd, &any, 1, MSG_DONTWAIT) <= 0;
    });
  }

 private:
  bool is_far_end(int fd) const {
    return std::find(far_ends_.begin(), far_ends_.end(), fd) != far_ends_.end();
  }
  std::vector<int> far_ends_;
};

/// @return the child's status
template <class Child>
int in_child(Child const& child) {
  auto const pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    instead_of_sockets const sockets;
    int const wrong = child();
    ::_exit(wrong != 0 ? wrong : sockets.are_silent() ? 0 : 98);
  }
  int status = -1;
  CHECK(::waitpid(pid, &status, 0) == pid);
  return status;
}

}  // namespace

LEASE_CASE(
    "async ends: a forked child neither calls nor destroys handlers, and the parent's calls complete") {
  stranger other(f);
  take_wanted(other);
  fates of;
  fates refused;
  std::atomic<bool> campaigns{false};
  loop l;
  f.probe->look = [&](std::string const&, std::span<backend::value const> p) {
    auto const* const name = p.empty() ? nullptr : std::get_if<std::string>(&p.front());
    if (name != nullptr && name->find("scheduler") != std::string::npos) campaigns = true;
  };
  auto m = f.manager();
  auto calls = std::make_unique<waiting_calls>(*m, l.where(), of);
  REQUIRE(eventually([&] { return campaigns.load(); }));
  CHECK(l.waiting() == 0);
  bool posted = false;
  SUBCASE("they wait") {}
  SUBCASE("they are posted") { posted = true; }
  auto const ends = [&] {
    release_wanted(other);
    CHECK(calls->mine().release() == release_result::released);
    CHECK(eventually([&] { return l.waiting() == of.all.size(); }));
  };
  if (posted) ends();
  auto const status = in_child([&] {
    if (posted) {
      l.turn();
      l.turn();
      l.drop();
    }
    bool const says_so = calls->are_refused(errc::forked, l.where(), refused);
    calls.reset();
    m.reset();
    if (l.waiting() > 0) return 1;
    if (!of.each(0, 0)) return 2;
    return says_so ? 0 : 3;
  });
  CHECK(status == 0);
  CHECK(of.each(0, 0));
  if (!posted) ends();
  while (l.waiting() > 0) l.turn();
  CHECK(of.each(1, 1));
  CHECK(of.takes.came == "acquired");
  CHECK(of.takes_all.came == "acquired");
  CHECK(of.free.came == "true");
  CHECK(of.leads.came == "leads");
  CHECK(of.lost.came == "no loss");
}

LEASE_CASE("async ends: a forked child leaves its parent's close to the parent") {
  stranger other(f);
  fate of;
  auto const goes_on = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> asked{false};
  loop l;
  f.probe->before = [&, goes_on](std::string const& s) {
    if (s != "lock_release") return;
    asked = true;
    (void)eventually([&] { return goes_on->load(); });
  };
  auto m = f.manager();
  auto held = std::make_unique<acquisition>(m->make_mutex("x").try_acquire());
  REQUIRE(*held);
  m->async_close(l.where(), tells(of));
  REQUIRE(eventually([&] { return asked.load(); }));
  auto const status = in_child([&] {
    held.reset();
    m.reset();
    return l.waiting() == 0 && of.called == 0 && of.destroyed == 0 ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(l.waiting() == 0);
  *goes_on = true;
  l.turn();
  CHECK(of.called == 1);
  CHECK(of.came == "true");
  CHECK(other.sees_free("x"));
}

LEASE_CASE("async ends: F17: calls of each kind complete once before the manager's end, and none after it") {
  stranger other(f);
  take_wanted(other);
  fates of;
  fates refused;
  fate late;
  auto const goes_on = std::make_shared<std::atomic<bool>>(true);
  std::atomic<bool> ended{false};
  std::atomic<int> posts_after_the_end{0};
  auto const hang = std::make_shared<std::atomic<int>>(0);  // of threads that the manager leaves behind
  loop l;
  executor const where([&, to = l.where()](posted p) {
    if (ended) ++posts_after_the_end;
    to.post(std::move(p));
  });
  f.probe->before = [goes_on, hang](std::string const&) {
    if (*goes_on) return;
    ++*hang;
    (void)eventually([&] { return goes_on->load(); });
  };
  auto o = f.options;
  o.release_timeout = 300ms;
  auto m = f.manager(o);
  auto calls = std::make_unique<waiting_calls>(*m, where, of);
  SUBCASE("all of them wait") {}
  SUBCASE("the database hangs") {
    *goes_on = false;
    calls->mine().async_extend(60s, where, tells(late));
    REQUIRE(eventually([&] { return *hang > 0; }));
  }
  m.reset();
  ended = true;
  CHECK(l.waiting() == of.all.size());
  while (l.waiting() > 0) l.turn();
  CHECK(of.each(1, 1));
  CHECK(of.takes.came == "cancelled");
  CHECK(of.takes_all.came == "cancelled");
  CHECK(of.free.came == "false");
  CHECK(of.leads.came == "does not lead");
  CHECK(of.lost.came == "no loss");
  CHECK(late.called == 0);
  if (!*goes_on) {
    CHECK(late.destroyed == 0);
    *goes_on = true;
    CHECK(eventually([&] { return late.destroyed == 1; }));  // without a call
  }
  calls.reset();
  CHECK(l.waiting() == 0);
  CHECK(late.called == 0);
  CHECK(posts_after_the_end == 0);
}

CONTRACT_CASE("async ends: wait_until_free_for asks nothing after a stop: the database might not answer") {
  stranger other(f);
  counted_bell bell;
  std::stop_source stop;
  inside here(f, {});
  REQUIRE(other.take("x"));
  managing::free_wait waits(here.m->parts(), here.spec, std::nullopt, stop.get_token(), bell);
  SUBCASE("before it begins") { stop.request_stop(); }
  SUBCASE("between two looks") {
    CHECK(std::holds_alternative<managing::question>(waits.next()));
    waits.ask();
    CHECK(std::holds_alternative<managing::pause>(waits.next()));
    stop.request_stop();
    CHECK(bell.rung == 1);
  }
  auto const end = waits.next();
  REQUIRE(std::holds_alternative<bool>(end));
  CHECK_FALSE(std::get<bool>(end));
}

LEASE_CASE(
    "async ends: F17: a handler of any kind of call may end the manager, on the loop and on its thread") {
  std::string kind;
  SUBCASE("campaign") { kind = "campaign"; }
  SUBCASE("lost") { kind = "lost"; }
  SUBCASE("all") { kind = "all"; }
  SUBCASE("free") { kind = "free"; }
  SUBCASE("release") { kind = "release"; }
  stranger other(f);
  std::vector<std::string> const names{"a", "z"};
  mutex_options const options;
  loop l;
  for (auto const& where : {l.where(), executor(on_library_thread)}) {
    int calls = 0;
    std::promise<void> ended;
    auto o = f.options;
    o.release_timeout = 600s;
    auto m = f.manager(o);
    auto x = m->make_mutex("x");
    election candidate(*m, "scheduler", {});
    auto held = x.try_acquire();
    REQUIRE(held);
    auto const handler = [&](std::exception_ptr const& failed, auto const&) {
      CHECK_FALSE(failed);
      ++calls;
      m.reset();
      ended.set_value();
    };
    if (kind == "campaign") candidate.async_campaign(where, handler);
    if (kind == "all") m->async_acquire_all(names, options, where, handler);
    if (kind == "free") x.async_wait_until_free_for(60s, where, handler);
    if (kind == "lost") held->async_lost(where, handler);
    if (kind == "lost" || kind == "free") CHECK(held->release() == release_result::released);
    if (kind == "release") held->async_release(where, handler);
    if (!where.is_library_thread()) l.turn();
    CHECK(ended.get_future().wait_for(60s) == std::future_status::ready);
    CHECK(calls == 1);
    CHECK_FALSE(m);
    CHECK(l.waiting() == 0);
    for (auto const* name : {"x", "a", "z", "scheduler"})
      CHECK(eventually([&] { return other.sees_free(name); }));
  }
}

CONTRACT_CASE("async ends: lost() that begins while the lock ends is told once, at each step") {
  answer<loss> early;
  answer<loss> during;
  std::atomic<int> begun{0};
  std::optional<held_lock> lock;
  loop l;
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind == event_kind::lost && begun++ == 0) lock->async_lost(l.where(), during.handler());
  };
  auto const begins = [&](std::string const& s) {
    if (s == "lock_release" && begun++ == 0) lock->async_lost(l.where(), during.handler());
  };
  auto const m = f.manager(o);
  auto got = m->make_mutex("x", {.ttl = 2s}).try_acquire();
  REQUIRE(got);
  lock = *std::move(got);
  lock->async_lost(l.where(), early.handler());
  bool released = true;
  SUBCASE("before the release is sent") { f.probe->before = begins; }
  SUBCASE("before its reply comes") { f.probe->after = begins; }
  SUBCASE("as the loss is reported") { released = false; }
  SUBCASE("inside the callback of a loss") {
    released = false;
    ++begun;
    std::stop_callback const on_loss(lock->loss_token(),
                                     [&] { lock->async_lost(l.where(), during.handler()); });
    REQUIRE(m->revoke("x", revoke_mode::now));
    l.turn();
    l.turn();
  }
  if (released)
    CHECK(lock->release() == release_result::released);
  else if (begun == 0)
    REQUIRE(m->revoke("x", revoke_mode::now));
  if (early.calls == 0) {
    l.turn();
    l.turn();
  }
  CHECK(early.calls == 1);
  CHECK(during.calls == 1);
  CHECK(early.came->has_value() == !released);
  CHECK(*during.came == *early.came);
  CHECK(l.waiting() == 0);
}

namespace {

/// Two threads, each of which begins its part of a turn when the other one does.
class together {
 public:
  void begin() {
    int const turn = (come_.fetch_add(1) / 2 + 1) * 2;
    while (come_ < turn) {
    }
  }

 private:
  std::atomic<int> come_{0};
};

}  // namespace

TEST_CASE("async ends: a thread that ends a lock and one that begins to watch it see each other") {
  constexpr int turns = 20'000;
  std::vector<std::shared_ptr<holding::hold>> all;
  for (int i = 0; i < turns; ++i) {
    holding::grant_facts facts;
    facts.name = "name";
    facts.term = {"term"};
    facts.ttl = 600s;
    facts.sent_at = boot_clock::now();
    all.push_back(std::make_shared<holding::hold>(std::move(facts), waiting::local_queue::turn()));
  }
  bool loses = false;
  SUBCASE("a release") {}
  SUBCASE("a loss") { loses = true; }
  together both;
  std::jthread ends([&] {
    for (auto const& one : all) {
      both.begin();
      if (loses) {
        (void)one->lose(loss_reason::taken_over);
      } else {
        (void)one->begin_release();
        one->end_release(std::nullopt, boot_clock::now());
      }
    }
  });
  int missed = 0;
  std::vector<std::stop_token> tokens;
  tokens.reserve(turns);
  for (auto const& one : all) {
    both.begin();
    tokens.push_back(one->end_token());
  }
  ends.join();
  for (auto const& t : tokens)
    if (!t.stop_requested()) ++missed;
  CHECK(missed == 0);
}

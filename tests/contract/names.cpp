// Names: what is refused, and what is told apart.
#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::string refusal(lock_manager& m, std::string const& name) {
  try {
    (void)m.make_mutex(name);
  } catch (error const& e) {
    return e.reason() == errc::invalid_argument ? e.what() : "another error";
  }
  return "";
}

}  // namespace

EVERY_CASE("T3: names that can't be are refused, and the message says why") {
  auto const m = f.manager();
  CHECK(refusal(*m, "").find("empty") != std::string::npos);
  CHECK(refusal(*m, std::string(256, 'x')).find("256 bytes") != std::string::npos);
  CHECK(refusal(*m, std::string("a\0b", 3)).find("U+0000") != std::string::npos);
  CHECK(refusal(*m, "\xff\xfe").find("UTF-8") != std::string::npos);
  CHECK(refusal(*m, "\xc0\x80").find("UTF-8") != std::string::npos);      // overlong
  CHECK(refusal(*m, "\xed\xa0\x80").find("UTF-8") != std::string::npos);  // a surrogate
  CHECK(refusal(*m, "cut \xe2\x82").find("UTF-8") != std::string::npos);
}

EVERY_CASE("T4: names are compared byte for byte") {
  auto const m = f.manager();
  std::vector<std::string> const names{"job",
                                       "job ",
                                       " job",
                                       "JOB",
                                       "Job",
                                       "j\xc3\xb6"
                                       "b",
                                       "jo\xcc\x88"
                                       "b",
                                       "\xf0\x9f\x98\x80",
                                       "\xf0\x9f\x98\x81",
                                       "o'clock",
                                       "\"quoted\"",
                                       "a\\b",
                                       "%",
                                       "_",
                                       "'; DROP TABLE rowlock_locks; --",
                                       "$1",
                                       "?1",
                                       "line\nbreak",
                                       "\x01",
                                       "{\"name\":1}",
                                       std::string(255, 'x'),
                                       std::string(254, 'x')};
  std::vector<mutex> mutexes;
  std::vector<acquisition> held;
  for (auto const& name : names) {
    CAPTURE(name);
    mutexes.push_back(m->make_mutex(name, {.ttl = 9s}));
    held.push_back(mutexes.back().try_acquire());
    REQUIRE(held.back());
  }
  CHECK(m->list().size() == names.size());
  // Renewed under just these names, too.
  auto const* renewal = pair.strategy == strategy::row_lock ? "row_ping" : "lock_renew";
  auto const renewals = f.probe->executed(renewal);
  REQUIRE(eventually([&] { return f.probe->executed(renewal) >= renewals + 4; }));
  for (auto const& lock : held) {
    CAPTURE(lock->name());
    CHECK(lock->valid());
  }
  stranger other(f);
  for (auto const& name : names) CHECK_FALSE(other.take(name));
  for (auto& lock : held) CHECK(lock->release() == release_result::released);
}

CONTRACT_CASE("notes and explicit owners are checked as names are") {
  auto const m = f.manager();
  CHECK_THROWS_AS((void)m->make_mutex("x", {.note = std::string(1025, 'n')}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.note = "\xff"}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.owner = takes_over{""}}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.owner = takes_over{std::string(256, 'o')}}), error);
  CHECK(m->make_mutex("x", {.owner = takes_over{"it's"}, .note = "\xf0\x9f\x98\x80 it's"}).try_acquire());
}

CONTRACT_CASE("options out of range are refused") {
  auto const m = f.manager();
  CHECK_THROWS_AS((void)m->make_mutex("x", {.ttl = 99ms}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.ttl = std::chrono::hours(24 * 367)}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.at_least = -1ms}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.hard_limit = 50ms}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.retry = {.first = 0ms}}), error);
  CHECK_THROWS_AS((void)m->make_mutex("x", {.retry = {.jitter = 1.5}}), error);
}

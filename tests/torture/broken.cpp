// Locks that are broken on purpose: each is caught. One that is not means that clients, nemeses or checker
// are blind. And locks as they are, which are not blamed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "run.hpp"
#include "support/changed_sql.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;
using torture::workload;

struct change {
  char const* statement;
  std::string from;
  std::string to;
};

struct form {
  char const* name;
  std::vector<change> changes;
  char const* rule;  ///< that the checker says is broken
  workload what = workload::mutex;
};

std::string const now_ms = "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";

std::vector<form> const forms{
    {"takes what is held", {{"lock_take", "THEN term IS NULL", "THEN 1 = 1"}}, "overlap"},
    // By more than what is left when a renewal is due: who holds it for longer than that loses it.
    {"the taker's clock is ahead",
     {{"lock_take", "expires_at <= " + now_ms, "expires_at <= " + now_ms + " + 800"}},
     "overlap"},
    {"trust outlives the grant",
     {{"lock_take", "min(?8, coalesce(?10, ?8))", "?8 / 4"},
      {"lock_renew", now_ms + " + ttl", now_ms + " + ttl / 4"}},
     "overlap"},
    {"tokens stand still",
     {{"lock_take", "CASE WHEN ?12 = 0 THEN token ELSE max(", "CASE WHEN 1 = 1 THEN 7 ELSE max("}},
     "token"},
    {"a renewal that does nothing", {{"lock_renew", "AND revoked = 0", "AND 1 = 0"}}, "loss"},
    {"a permit too many",
     {{"permit_take", "<= coalesce(?13, l.permit_limit)", "<= coalesce(?13, l.permit_limit) + 1"}},
     "overlap",
     workload::semaphore},
    {"permits of others do not count",
     {{"permit_take", "p.term IS NOT ?15", "p.term IS ?15"}},
     "overlap",
     workload::semaphore},
    {"readers and writers together",
     {{"permit_take", "(SELECT coalesce(sum(p.units), 0)", "(SELECT coalesce(max(p.units), 0) % 1000"}},
     "overlap",
     workload::shared},
    // Of two who both trust their locks, which is what the first change brings about, only the guard can
    // refuse one.
    {"a guard that goes by the name alone",
     {{"lock_take", "THEN term IS NULL", "THEN 1 = 1"},
      {"guard_require", "term = ?2 AND revoked = 0\nRETURNING term", "?2 = ?2\nRETURNING ?2"}},
     "guard",
     workload::guarded_set},
};

std::map<std::string, std::string> changed(form const& f, connection_source const& s) {
  std::map<std::string, std::string> texts;
  for (auto const& c : f.changes) {
    auto& text = texts.try_emplace(c.statement, sql_of(s, c.statement)).first->second;
    auto at = text.find(c.from);
    if (at == text.npos) throw std::runtime_error(fmt::format("{} has no {}", c.statement, c.from));
    for (; at != text.npos; at = text.find(c.from, at + c.to.size())) text.replace(at, c.from.size(), c.to);
  }
  return texts;
}

torture::verdict tortured(torture::options o, std::uint32_t seed) {
  scratch_folder const folder;
  o.db = "sqlite:" + folder.file("locks.db");
  if (o.what == workload::quorum)
    o.members = {"sqlite:" + folder.file("second.db"), "sqlite:" + folder.file("third.db")};
  o.seed = seed;
  if (o.nemeses.empty()) o.nemeses = {"kill", "stop"};
  auto const histories = std::filesystem::path(folder.file("histories"));
  std::filesystem::create_directory(histories);
  return torture::torture(o, histories, [](std::string const&) {});
}

}  // namespace

TEST_CASE("torture: what is broken on purpose is caught") {
  for (auto const& f : forms) {
    CAPTURE(f.name);
    torture::options o;
    o.what = f.what;
    o.ttl = 1s;
    o.duration = 4s;
    o.connect = [&](std::string const& url) {
      auto s = source_from_url(url);
      auto texts = changed(f, s);
      return with_changed_sql(std::move(s), std::move(texts));
    };
    // By chance a fault may miss the moment.
    bool caught = false;
    for (std::uint32_t seed = 1; seed <= 5 && !caught; ++seed) {
      auto const v = tortured(o, seed);
      caught = std::any_of(v.violations.begin(), v.violations.end(),
                           [&](torture::violation const& each) { return each.rule == f.rule; });
      MESSAGE(std::string(f.name), ", seed ", seed, ": ", v.acquisitions, " acquisitions, ",
              v.violations.size(), " violations", std::string(caught ? ": caught" : ""));
    }
    CHECK(caught);
  }
}

TEST_CASE("torture: what is not broken is not blamed") {
  std::int64_t faults = 0;
  std::int64_t deeds = 0;
  for (auto const what : {workload::mutex, workload::recursive_mutex, workload::shared, workload::semaphore,
                          workload::all_at_once, workload::election, workload::quorum, workload::row_lock,
                          workload::guarded_set, workload::force}) {
    torture::options o;
    o.what = what;
    o.duration = 5s;
    o.nemeses = {"kill", "stop", "operator"};
    if (what == workload::force) o.nemeses.emplace_back("force");
    auto const v = tortured(o, 1);
    CAPTURE(to_string(what));
    for (auto const& each : v.violations) FAIL_CHECK(each.rule, ": ", each.text);
    CHECK(v.acquisitions > 20);
    CHECK((v.added > 10) == torture::writes(what));
    faults += v.faults;
    deeds += v.deeds;
  }
  CHECK(faults > 10);
  CHECK(deeds > 5);
}

// The lock is broken, and the guard is not: what is written stays right.
TEST_CASE("torture: where locks are given to two, require keeps what is written") {
  torture::options o;
  o.what = workload::guarded_set;
  o.ttl = 1s;
  o.duration = 5s;
  o.connect = [](std::string const& url) {
    auto s = source_from_url(url);
    auto texts = changed(forms.at(0), s);
    return with_changed_sql(std::move(s), std::move(texts));
  };
  auto const v = tortured(o, 1);
  auto const rules = [&](std::string const& rule) {
    return std::count_if(v.violations.begin(), v.violations.end(),
                         [&](torture::violation const& each) { return each.rule == rule; });
  };
  CHECK(rules("overlap") > 0);
  CHECK(v.added > 20);
  CHECK(v.lost_additions == 0);
  CHECK(rules("guard") == 0);
}

}  // namespace rowlock::test

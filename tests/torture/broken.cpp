// Locks that are broken on purpose: each is caught. One that is not means that clients, nemeses or checker
// are blind. And locks as they are, which are not blamed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "history.hpp"
#include "run.hpp"
#include "support/changed_sql.hpp"
#include "support/support.hpp"
#include "torture/own_database.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;
using torture::workload;

struct change {
  char const* statement;
  std::string from;  ///< empty: all of it
  std::string to;
};

struct form {
  char const* name;
  std::vector<change> changes;
  char const* rule;  ///< that the checker says is broken; null: none is
  workload what = workload::mutex;
  std::vector<std::string> nemeses = {"kill", "stop"};
  std::vector<change> of_second{};  ///< of the second member of a quorum, besides
  int names = 3;
  bool wait_queues = true;  ///< without them who waits is there at once
  std::chrono::seconds duration{4};
};

std::string const now_ms = "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";

change const clock_goes_back{
    "lock_take", now_ms + " * 1000 + ?12 - 1",
    "cast((julianday('now') - abs(random() % 2) - 2440587.5) * 86400000 AS INTEGER) * 1000 + ?12 - 1"};
change const hour_ahead{"quorum_take", "coalesce(?12, " + now_ms + " * 1000)",
                        "coalesce(?12, (" + now_ms + " + 3600000) * 1000)"};

std::vector<form> const forms_of_locks{
    {"takes what is held", {{"lock_take", "THEN term IS NULL", "THEN 1 = 1"}}, "overlap"},
    // By more than what is left when a renewal is due: who holds it for longer than that loses it.
    {"the taker's clock is ahead",
     {{"lock_take", "expires_at <= " + now_ms, "expires_at <= " + now_ms + " + 800"}},
     "overlap",
     workload::mutex,
     {"kill", "stop"},
     {},
     3,
     true,
     8s},
    {"trust outlives the grant",
     {{"lock_take", "min(?8, coalesce(?10, ?8))", "?8 / 4"},
      {"lock_renew", now_ms + " + ttl", now_ms + " + ttl / 4"}},
     "overlap"},
    {"tokens stand still",
     {{"lock_take", "CASE WHEN ?12 = 0 THEN token", "CASE WHEN 1 = 1 THEN 7"}},
     "token"},
    // A client that is stopped would excuse it: it may have the whole file.
    {"a renewal that does nothing",
     {{"lock_renew", "AND revoked = 0", "AND 1 = 0"}},
     "loss",
     workload::mutex,
     {"kill"},
     {},
     40,  // the more are held at a time, the more of them for long
     true,
     12s},
    {"the clients' clocks, of which each is another",
     {{"lock_take", "expires_at <= " + now_ms, "expires_at <= " + now_ms + " + ?5 % 5 * 400"}},
     "overlap"},
    {"a reaper that does not look again",
     {{"reap_locks_delete", "AND l.name <= ?2\n    AND (l.term IS NULL",
       "AND l.name <= ?2\n    AND (1 = 1 OR l.term IS NULL"},
      {"reap_locks_delete", "CASE l.strategy", "CASE WHEN 1 = 1 THEN 1 WHEN ?4 = 0 THEN 0"},
      {"reap_locks_delete", "WHEN 'unique_insert'", "WHEN l.strategy = 'unique_insert'"},
      {"reap_locks_delete", "WHEN 'lease'", "WHEN l.strategy = 'lease'"},
      {"reap_locks_delete", "WHEN 'once'", "WHEN l.strategy = 'once'"},
      {"reap_locks_delete", "WHEN 'quorum'", "WHEN l.strategy = 'quorum'"},
      {"reap_locks_delete", "WHEN 'row_lock'", "WHEN l.strategy = 'row_lock'"},
      {"reap_locks_delete", "AND l.token <= (SELECT m.token_floor FROM rowlock_meta AS m WHERE m.id = 1)",
       ""}},
     "overlap",
     workload::mutex,
     {"operator"}},
    // Of two who both trust their locks, which is what the first change brings about, only the guard can
    // refuse one.
    {"a guard that goes by the name alone",
     {{"lock_take", "THEN term IS NULL", "THEN 1 = 1"},
      {"guard_require", "term = ?2 AND revoked = 0\nRETURNING term", "?2 = ?2\nRETURNING ?2"}},
     "guard",
     workload::guarded_set},
};

std::vector<form> const forms_of_permits{
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
};

std::vector<form> const forms_of_tokens{
    {"a block of tokens on one arm only, and a clock that goes back",
     {{"lock_take", "token + ?12,", "token + 1,"}, clock_goes_back},
     "token"},
    {"the clock alone", {clock_goes_back}, nullptr},
    {"a quorum that does not write the token back, and a member with a clock of its own",
     {{"quorum_confirm", "token = max(token, ?3)", "token = max(token, ?3 * 0)"},
      {"quorum_take", "coalesce(?12,", "coalesce(?12 + NULL,"}},
     "token",
     workload::quorum,
     {"stop"},
     {{"quorum_take", "coalesce(?12 + NULL, " + now_ms + " * 1000)", "(" + now_ms + " + 3600000) * 1000"}},
     1},
    {"that member's clock alone", {}, nullptr, workload::quorum, {"stop"}, {hour_ahead}},
};

// It has to be a statement that changes a row.
change const guard_only_reads{"guard_require", "",
                              "INSERT INTO rowlock_tokens (name, token) SELECT $2, 1 FROM rowlock_locks "
                              "WHERE name = $1 AND term = $2 AND NOT revoked ON CONFLICT (name, generation) "
                              "DO UPDATE SET token = 2 RETURNING "
                              "$2::text"};

// Where the server has more than one writer at a time.
std::vector<form> const forms_on_postgresql{
    {"a take that goes by what it saw before it waited",
     {{"lock_take", "l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())",
       "(SELECT o.term IS NULL OR o.expires_at <= clock_timestamp() FROM rowlock_locks AS o WHERE o.name = "
       "$1 ORDER BY o.generation DESC LIMIT 1)"}},
     "overlap"},
    {"permits that are counted without a lock on their name",
     {{"permit_anchor", "FOR UPDATE", ""}},
     "overlap",
     workload::semaphore},
    // Where the answer is lost it is given back once more.
    {"a release by the name alone",
     {{"lock_release", "AND term = $2", "AND $2::text IS NOT NULL"}},
     "overlap",
     workload::mutex,
     {"lost-answers"},
     {},
     1,
     false,
     12s},
    // The lock is lost while the transaction is open, and others have it.
    {"a guard that only reads",
     {guard_only_reads},
     "guard",
     workload::force,
     {"stop", "force", "force", "force"},
     {},
     1,
     false},
    // Or it is given back meanwhile, as clients do now and then.
    {"a guard that only reads, and nobody who takes locks away",
     {guard_only_reads},
     "guard",
     workload::guarded_set,
     {"kill"},
     {},
     1,
     false,
     8s},
};

std::map<std::string, std::string> changed(std::vector<change> changes, connection_source const& s) {
  std::map<std::string, std::string> texts;
  for (std::size_t i = changes.size(); i-- > 0;)
    if (changes[i].statement == std::string_view("lock_take"))
      changes.push_back({"lock_next_take", changes[i].from, changes[i].to});
  for (auto const& c : changes) {
    auto& text = texts.try_emplace(c.statement, sql_of(s, c.statement)).first->second;
    if (c.from.empty()) {
      text = c.to;
      continue;
    }
    auto at = text.find(c.from);
    if (at == text.npos) throw std::runtime_error(fmt::format("{} has no {}", c.statement, c.from));
    for (; at != text.npos; at = text.find(c.from, at + c.to.size())) text.replace(at, c.from.size(), c.to);
  }
  return texts;
}

connection_source broken_source(form const& f, std::string const& url) {
  auto s = source_from_url(url);
  auto all = f.changes;
  if (url.ends_with("second.db")) all.insert(all.end(), f.of_second.begin(), f.of_second.end());
  auto texts = changed(all, s);
  return with_changed_sql(std::move(s), std::move(texts));
}

/// On the database that the options name; without one, on files of its own. `began`: when the first thing
/// happened.
torture::verdict tortured(torture::options o, std::uint32_t seed, std::int64_t* began = nullptr) {
  scratch_folder const folder;
  if (o.db.empty()) o.db = "sqlite:" + folder.file("locks.db");
  if (o.what == workload::quorum)
    o.members = {"sqlite:" + folder.file("second.db"), "sqlite:" + folder.file("third.db")};
  o.seed = seed;
  if (o.nemeses.empty()) o.nemeses = {"kill", "stop"};
  auto const histories = std::filesystem::path(folder.file("histories"));
  std::filesystem::create_directory(histories);
  auto v = torture::torture(o, histories, [](std::string const&) {});
  if (began != nullptr) {
    auto const all = torture::read_history(histories);
    *began = all.empty() ? 0 : all.front().at;
  }
  return v;
}

/// The first of the rule's violations, in seconds; "end" if what shows it is known at the end only; "-" if
/// there is none.
std::string when_caught(torture::verdict const& v, std::string const& rule, std::int64_t began) {
  std::optional<std::int64_t> first;
  bool at_end = false;
  for (auto const& each : v.violations) {
    if (each.rule != rule) continue;
    at_end = at_end || each.records.empty();
    std::int64_t last = 0;
    for (auto const& r : each.records) last = std::max(last, r.at);
    if (last > 0) first = std::min(first.value_or(last), last);
  }
  if (first) return fmt::format("{:.1f}", static_cast<double>(*first - began) / 1e9);
  return at_end ? "end" : "-";
}

/// By chance a fault may miss the moment: so several times.
void judge(std::vector<form> const& all, std::string const& db) {
  // For a table of seeds: of forms whose names have this in them.
  char const* const wanted = std::getenv("ROWLOCK_TEST_EACH_SEED");
  bool const each_seed = wanted != nullptr;
  for (auto const& f : all) {
    if (each_seed && std::string_view(f.name).find(wanted) == std::string_view::npos) continue;
    CAPTURE(f.name);
    torture::options o;
    o.db = db;
    o.what = f.what;
    o.ttl = 1s;
    o.duration = f.duration;
    o.nemeses = f.nemeses;
    o.names = f.names;
    o.wait_queues = f.wait_queues;
    o.through_wire = !db.empty();
    o.connect = [&](std::string const& url) { return broken_source(f, url); };
    bool caught = false;
    std::string seconds;
    std::uint32_t const seeds = f.rule == nullptr ? 1 : each_seed ? 5 : 15;
    for (std::uint32_t seed = 1; seed <= seeds && (!caught || each_seed); ++seed) {
      std::int64_t began = 0;
      auto const v = tortured(o, seed, &began);
      if (f.rule != nullptr) seconds += " | " + when_caught(v, f.rule, began);
      bool const now =
          std::any_of(v.violations.begin(), v.violations.end(), [&](torture::violation const& each) {
            return f.rule == nullptr ? each.rule == "token" : each.rule == f.rule;
          });
      caught = caught || now;
      MESSAGE(std::string(f.name), ", seed ", seed, ": ", v.acquisitions, " acquisitions, ",
              v.violations.size(), " violations", std::string(now ? ": caught" : ""));
    }
    if (each_seed && f.rule != nullptr)
      MESSAGE("by ", std::string(f.rule), seconds, " |");  // a note is a short line
    CHECK(caught == (f.rule != nullptr));
  }
}

}  // namespace

TEST_CASE("torture: what is broken on purpose is caught: locks") { judge(forms_of_locks, {}); }

TEST_CASE("torture: what is broken on purpose is caught: permits") { judge(forms_of_permits, {}); }

TEST_CASE("torture: what is broken on purpose is caught: tokens") { judge(forms_of_tokens, {}); }

TEST_CASE("torture: what is broken on purpose is caught: PostgreSQL") {
  own_database const d(postgresql_conninfo());
  judge(forms_on_postgresql, d.address());
}

TEST_CASE("torture: what is not broken is not blamed") {
  std::int64_t faults = 0;
  std::int64_t deeds = 0;
  std::uint32_t seed = 0;
  for (auto const what : {workload::mutex, workload::recursive_mutex, workload::shared, workload::semaphore,
                          workload::all_at_once, workload::election, workload::quorum, workload::row_lock,
                          workload::guarded_set, workload::force}) {
    torture::options o;
    o.what = what;
    o.nemeses = {"kill", "stop", "operator"};
    if (what == workload::force) o.nemeses.emplace_back("force");
    CAPTURE(to_string(what));
    // On a busy machine for longer, until there was enough to judge.
    torture::verdict v;
    for (o.duration = 3s; o.duration <= 27s; o.duration *= 3) {
      v = tortured(o, ++seed);
      for (auto const& each : v.violations) FAIL_CHECK(each.rule, ": ", each.text);
      faults += v.faults;
      deeds += v.deeds;
      if (v.acquisitions > 20 && (v.added > 10 || !torture::writes(what))) break;
    }
    CHECK(v.acquisitions > 20);
    CHECK((v.added > 10) == torture::writes(what));
  }
  CHECK(faults > 3);
  CHECK(deeds > 3);
}

TEST_CASE("torture: faults begin when somebody has had a lock, and afterwards there is time to take one") {
  scratch_folder const folder;
  auto const histories = std::filesystem::path(folder.file("histories"));
  std::filesystem::create_directory(histories);
  torture::options o;
  o.db = "sqlite:" + folder.file("locks.db");
  o.what = workload::guarded_set;
  o.ttl = 100ms;
  o.duration = 1ms;
  o.nemeses = {"kill"};
  o.connect = [](std::string const& url) {
    std::this_thread::sleep_for(300ms);  // a client of a busy machine
    return source_from_url(url);
  };
  CHECK(torture::torture(o, histories, [](std::string const&) {}).added > 0);
  auto const all = torture::read_history(histories);
  auto const first = [&](torture::happening what, std::int64_t since) {
    auto const at = std::find_if(all.begin(), all.end(),
                                 [&](torture::record const& r) { return r.what == what && r.at > since; });
    REQUIRE(at != all.end());
    return at->at;
  };
  auto const fault = first(torture::happening::died, 0);
  CHECK(first(torture::happening::gives_back, 0) < fault);
  CHECK(first(torture::happening::got, fault) > fault);
}

// The lock is broken, and the guard is not: what is written stays right.
TEST_CASE("torture: where locks are given to two, require keeps what is written") {
  torture::options o;
  o.what = workload::guarded_set;
  o.ttl = 1s;
  o.duration = 5s;
  o.connect = [](std::string const& url) {
    auto s = source_from_url(url);
    auto texts = changed(forms_of_locks.at(0).changes, s);
    return with_changed_sql(std::move(s), std::move(texts));
  };
  torture::verdict v;
  auto const rules = [&](std::string const& rule) {
    return std::count_if(v.violations.begin(), v.violations.end(),
                         [&](torture::violation const& each) { return each.rule == rule; });
  };
  // By chance, and on a busy machine, nobody may meet.
  for (std::uint32_t seed = 1; seed <= 10 && (rules("overlap") == 0 || v.added <= 20); ++seed) {
    v = tortured(o, seed);
    CHECK(v.lost_additions == 0);
    CHECK(rules("guard") == 0);
  }
  CHECK(rules("overlap") > 0);
  CHECK(v.added > 20);
}

}  // namespace rowlock::test

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include "base/random_id.hpp"
#include "diagnose/checks.hpp"
#include "strategy/quarantine.hpp"

namespace rowlock::diagnose {
namespace {

using namespace std::chrono_literals;

/// What locking needs. `doctor_may_select_meta` and so on are statements.
struct right {
  std::string_view verb;
  std::string_view table;
  std::string_view of = "doctor";
};

constexpr std::array<right, 12> rights{{{"select", "meta"},
                                        {"select", "locks"},
                                        {"insert", "locks"},
                                        {"update", "locks"},
                                        {"delete", "locks"},
                                        {"select", "tokens"},
                                        {"insert", "tokens"},
                                        {"update", "tokens"},
                                        {"select", "permits"},
                                        {"insert", "permits"},
                                        {"update", "permits"},
                                        {"delete", "permits"}}};

/// On each table of pulses. What an operator has set there is only read.
constexpr std::array<std::string_view, 3> verbs_on_pulses{"select", "insert", "delete"};

std::string upper(std::string_view word) {
  std::string out(word);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

/// A smaller difference of clocks is not worth a warning.
constexpr std::chrono::microseconds same_clock = 1s;

std::string seconds(std::chrono::microseconds t) {
  return fmt::format("{:.3f} s", static_cast<double>(t.count()) / 1e6);
}

}  // namespace

std::optional<opinion> schema(examination& x) {
  try {
    auto const version = x.check_schema();
    auto const latest = x.latest_version();
    std::string missing;
    std::vector<std::string> all{"locks", "migrations", "tokens", "reaper", "permits", "quorum", "admitted"};
    auto const& pulses = x.statements().sql().pulse_tables;
    all.insert(all.end(), pulses.begin(), pulses.end());
    for (auto const& what : all)
      if (x.is_missing(what))
        missing += fmt::format("{}{}{}", missing.empty() ? "" : ", ", x.options().table_prefix, what);
    if (!missing.empty())
      return opinion{verdict::error,
                     fmt::format("version {}, but these tables are missing: {}", version, missing),
                     "Make them by hand: rowlock migrate sql prints what they should be."};
    if (version == latest)
      return opinion{verdict::ok, fmt::format("version {}, as this program makes it", version)};
    if (version < latest)
      return opinion{verdict::ok, fmt::format("version {}, which is all that this program needs; `rowlock "
                                              "migrate up` makes version {}",
                                              version, latest)};
    return opinion{verdict::ok,
                   fmt::format("version {}, which serves this program made for {}", version, latest)};
  } catch (error const& e) {
    auto const why = x.words(e);
    if (e.reason() == errc::schema_missing) return opinion{verdict::error, why, "rowlock migrate up"};
    if (e.reason() == errc::schema_old) return opinion{verdict::error, why, "rowlock migrate up"};
    if (e.reason() == errc::schema_new) return opinion{verdict::error, why, "Install a newer rowlock."};
    throw;
  }
}

std::optional<opinion> grants(examination& x) {
  std::string missing;
  std::string said;
  std::vector<right> all(rights.begin(), rights.end());
  for (auto const table : x.statements().sql().pulse_tables)
    for (auto const verb : verbs_on_pulses)
      if (table != "quarantine" || verb == "select") all.push_back({verb, table, "pulse"});
  for (auto const& one : all) try {
      x.ask(fmt::format("{}_may_{}_{}", one.of, one.verb, one.table));
    } catch (error const& e) {
      if (e.reason() == errc::read_only)
        return opinion{verdict::unknown,
                       "needs a server that takes writes: what it would refuse this role "
                       "otherwise, it does not say"};
      if (e.reason() != errc::access_denied) throw;
      missing += fmt::format("{}{} on {}{}", missing.empty() ? "" : ", ", upper(one.verb),
                             x.options().table_prefix, one.table);
      said = x.words(e);
    }
  if (missing.empty()) return opinion{verdict::ok, "this role may do all that locking takes"};
  return opinion{verdict::error, fmt::format("this role lacks {} ({})", missing, said),
                 "Grant it what schema/*-grants.sql has for rowlock_locking."};
}

std::optional<opinion> clock(examination& x) {
  using std::chrono::microseconds;
  auto const now = [] {
    return std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch());
  };
  x.ask("doctor_clock");  // so that the second call is one round trip
  auto const before = now();
  auto const there = std::chrono::duration_cast<microseconds>(
      backend::as_time(x.ask("doctor_clock").rows.at(0).at(0)).time_since_epoch());
  auto const after = now();
  auto const ahead = there - (before + (after - before) / 2);
  auto const unsure = (after - before) / 2;
  auto const why = fmt::format("the database's clock is {} {} this machine's, to within {}",
                               seconds(microseconds(std::abs(ahead.count()))),
                               ahead < 0us ? "behind" : "ahead of", seconds(unsure));
  if (microseconds(std::abs(ahead.count())) - unsure <= same_clock) return opinion{verdict::ok, why};
  return opinion{
      verdict::warning,
      why +
          "; the difference does not harm leases, but setting the database's clock right in one step "
          "may, and jobs that start by the clock start at different times",
      "Keep both by NTP. Times in `rowlock list` and in the tables are the database's."};
}

std::optional<opinion> keepalive(examination& x) {
  auto const after = x.session().facts().keepalive;
  if (!after) return std::nullopt;
  auto const remedy =
      "Leave out keepalives, keepalives_idle, keepalives_interval and keepalives_count from the "
      "connection string: with rowlock's own it is noticed after 11 s.";
  if (*after == 0s)
    return opinion{verdict::warning,
                   "keepalives are off: a connection that died while it was idle is noticed by the next "
                   "call, which waits for its reply_timeout in vain",
                   remedy};
  if (*after > x.options().ttl)
    return opinion{verdict::warning,
                   fmt::format("a connection that died while it was idle is noticed after {} s, later than "
                               "the ttl: the next call may wait for its reply_timeout in vain",
                               after->count()),
                   remedy};
  return opinion{verdict::ok, fmt::format("a dead connection is noticed after {} s", after->count())};
}

std::optional<opinion> quarantine(examination& x) {
  using std::chrono::milliseconds;
  if (!x.statements().pulses()) return std::nullopt;
  if (x.statements().remembers_pulse()) x.ask("pulse_here");
  auto const seen = x.ask("pulse_look", {std::int64_t{0}}).rows.at(0);
  strategies::quarantine now{.left = milliseconds(backend::as_int(seen.at(2)))};
  now.frozen = now.left > 0ms;
  if (now.frozen) return opinion{verdict::warning, strategies::reason_of(now), "`rowlock thaw` ends it."};
  if (backend::as_int(seen.at(3)) == 0)
    return opinion{verdict::warning,
                   "off: after a failover or a crash that forgets locks, two processes can own one lock",
                   "rowlock quarantine on, unless replication loses nothing."};
  if (!backend::is_null(seen.at(1))) now.left = milliseconds(backend::as_int(seen.at(1)));
  if (now.left > 0ms) return opinion{verdict::warning, strategies::reason_of(now), "Wait."};
  return opinion{verdict::ok,
                 "on: after a failover or a crash nothing is granted until forgotten locks are over"};
}

// Uses a session and a wait queue of its own. Only the outcome matters.
std::optional<opinion> waiting(examination& x) {
  auto const polls = [](std::string const& why) {
    return "who waits for a lease or unique_insert tries again and again: " + why;
  };
  auto const session = x.another();
  if (!session->has_queues())
    return opinion{verdict::ok,
                   polls("this database has no line that would outlast a transaction, or a node")};
  try {
    auto const soon = x.deadline();
    (void)session->enter_queue(x.statements().tables(), base::random_id(), "doctor", soon,
                               x.options().reply_timeout, {});
    session->leave_queue(soon);
    return opinion{verdict::ok, "who waits stands in a line, and is woken"};
  } catch (error const& e) {
    if (e.reason() == errc::schema_missing) throw;  // its table can identify a wait queue
    if (e.reason() == errc::schema_old)
      return opinion{verdict::warning, polls(x.words(e)), "rowlock migrate up"};
    return opinion{
        verdict::warning, polls(x.words(e)),
        "Locks are as safe as with it. See what refuses it: the server, a proxy in between, or the folder "
        "that the file is in."};
  }
}

// Each take counts with its own caller's limit.
std::optional<opinion> limits(examination& x) {
  std::string differ;
  for (auto const& name : x.ask("doctor_limits").rows)
    differ += fmt::format("{}'{}' ({} to {})", differ.empty() ? "" : ", ", backend::as_text(name.at(0)),
                          backend::as_int(name.at(1)), backend::as_int(name.at(2)));
  if (differ.empty()) return opinion{verdict::ok, "permits of one name were taken under one limit"};
  return opinion{verdict::warning,
                 fmt::format("programs take permits of one name under different limits: {}; as long as they "
                             "do, the largest counts",
                             differ),
                 "Give all of them the same limit, or set it once for all who name none: "
                 "semaphore::set_limit()."};
}

}  // namespace rowlock::diagnose

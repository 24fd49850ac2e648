#include "strategy/quarantine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <vector>

namespace rowlock::strategies {

using backend::as_int;
using backend::is_null;
using backend::value;
using namespace std::chrono_literals;

namespace {

constexpr auto longest = longest_quarantine + 1s;

}  // namespace

quarantine settle_quarantine(backend::connection& c, backend::statement_book const& book,
                             std::chrono::milliseconds ttl, boot_time_point deadline) {
  quarantine now;
  if (!book.pulses()) return now;
  std::vector<value> const reach{std::int64_t{ttl.count()}};
  // A pooler can have reset the session, and another session can have begun an incarnation.
  bool asked = !book.remembers_pulse();
  // Two sessions can write at once, and the server can crash in between: so each looks again.
  for (int round = 0; round < 8; ++round) {
    auto const seen = c.execute(book.at("pulse_look"), reach, deadline).rows.at(0);
    if (auto const frozen = std::chrono::milliseconds(as_int(seen.at(2))); frozen > 0ms) {
      now.left = frozen;
      now.frozen = true;
      return now;
    }
    bool const knows = as_int(seen.at(4)) != 0;
    if (!is_null(seen.at(0))) {
      now.left = std::max(0ms, std::chrono::milliseconds(as_int(seen.at(0))));
      if (now.left <= longest && knows) return now;
    }
    now.changed = true;
    bool const none = is_null(seen.at(1));
    if (!asked || (!none && !knows)) {
      c.execute(book.at("pulse_here"), {}, deadline);
      asked = true;
    } else if (none || as_int(seen.at(1)) > std::chrono::milliseconds(longest).count()) {
      c.execute(book.at("pulse_begin"), {}, deadline);
    } else {
      raise_reach(c, book, ttl, deadline);
      c.execute(book.at("pulse_raise"), reach, deadline);
      c.execute(book.at("pulse_tidy"), {}, deadline);
    }
  }
  throw error(errc::conflict, "rowlock_pulse: its rows are gone as soon as they are written");
}

std::string reason_of(quarantine const& now) {
  if (now.frozen && now.left > 24h)
    return "the database is frozen by an operator, and grants nothing until it is thawed";
  return fmt::format("{} for {} s",
                     now.frozen
                         ? "the database is frozen by an operator, and grants nothing"
                         : "the database may have forgotten locks, in a failover or a crash, and grants none",
                     std::chrono::ceil<std::chrono::seconds>(now.left).count());
}

error refused_in_quarantine(std::string const& name, quarantine const& now) {
  return error(errc::row_locked, fmt::format("'{}': {}", name, reason_of(now)));
}

std::optional<std::int64_t> incarnation_of(backend::connection& c, backend::statement_book const& book,
                                           name_and_term const& of, std::int64_t renewals,
                                           boot_time_point deadline) {
  if (!book.pulses()) return 0;
  auto const seen =
      c.execute(book.at("pulse_watch"), std::vector<value>{of.name, of.term.value, renewals}, deadline).rows;
  if (seen.empty() || is_null(seen[0].at(0))) return std::nullopt;
  return as_int(seen[0].at(0));
}

void raise_reach(backend::connection& c, backend::statement_book const& book, std::chrono::milliseconds ttl,
                 boot_time_point deadline) {
  if (book.pulses())
    c.execute(book.at("pulse_reach"), std::vector<value>{std::int64_t{ttl.count()}}, deadline);
}

}  // namespace rowlock::strategies

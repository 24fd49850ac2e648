#include "manager/lock_spec.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "manager/identity.hpp"
#include "strategy/catalogue.hpp"
#include "strategy/permits.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds shortest_ttl = 100ms;
constexpr std::chrono::milliseconds longest_time = std::chrono::hours(24 * 366);

void require(bool good, char const* message) {
  if (!good) throw error(errc::invalid_argument, message);
}

void require_time(char const* what, std::chrono::milliseconds t, std::chrono::milliseconds shortest) {
  if (t < shortest || t > longest_time)
    throw error(errc::invalid_argument, fmt::format("{} of {} ms is out of range: {} ms to 366 days", what,
                                                    t.count(), shortest.count()));
}

void require_sense(retry_options const& retry) {
  if (retry.first < 1ms || retry.longest < retry.first || retry.longest > longest_time)
    throw error(
        errc::invalid_argument,
        fmt::format("retry waits of {} ms to {} ms make no sense: at least 1 ms, the first not longer "
                    "than the longest",
                    retry.first.count(), retry.longest.count()));
  if (!(retry.jitter >= 0 && retry.jitter <= 1))
    throw error(errc::invalid_argument, fmt::format("a jitter of {} is not between 0 and 1", retry.jitter));
  require(retry.attempts >= 0, "a negative number of attempts");
}

// Such a lock is only an open session, without a row and an expiry.
void refuse_what_needs_a_term(std::string const& name, strategy s, mutex_options const& o) {
  auto const refuse = [&](bool given, char const* what) {
    if (given)
      throw error(errc::unsupported, fmt::format("'{}': {} can't be used with {}: use lease or unique_insert",
                                                 name, what, to_string(s)));
  };
  refuse(o.at_least != 0ms, "at_least");
  refuse(o.hard_limit != 0ms, "a hard limit");
  refuse(!o.renew, "a fixed term (renew = false)");
  refuse(o.takeover != takeover::clock, "takeover::observed");
  refuse(std::holds_alternative<takes_over>(o.owner), "owner takes_over");
  refuse(!o.note.empty(), "a note");
}

void refuse_what_no_permit_has(std::string const& name, mutex_options const& o) {
  auto const refuse = [&](bool given, char const* what) {
    if (given)
      throw error(errc::unsupported,
                  fmt::format("'{}': {} can't be used with a lock that several may hold", name, what));
  };
  refuse(o.takeover != takeover::clock, "takeover::observed");
  refuse(std::holds_alternative<takes_over>(o.owner), "owner takes_over");
}

void require_sense(std::string const& name, permit_spec const& p) {
  // all_units marks a writer of a shared_mutex.
  auto const highest =
      p.what == permit_spec::kind::counted ? strategies::all_units - 1 : strategies::all_units;
  auto const most = p.limit.value_or(highest);
  if (most < 1 || most > highest)
    throw error(errc::invalid_argument, fmt::format("'{}': a limit of {}: 1 to {}", name, most, highest));
  if (p.units < 1 || p.units > most)
    throw error(
        errc::invalid_argument,
        fmt::format("'{}': {} units can't be taken: 1 to {}, which is the limit", name, p.units, most));
}

}  // namespace

lock_spec::lock_spec(std::string n, mutex_options o, bool r, rowlock::strategy usual,
                     backend::dialect const& sql, std::optional<permit_spec> wanted, bool votes)
    : name(std::move(n)),
      options(std::move(o)),
      strategy(options.strategy.value_or(usual)),
      fencing(options.fencing.value_or(traits(strategy).fenced_by_default)),
      recursive(r),
      permit(wanted) {
  base::require_name(name);
  if (traits(strategy).by_majority && !votes)
    throw error(errc::unsupported,
                fmt::format("'{}': strategy {} is for locks that several databases grant together: use "
                            "rowlock::quorum",
                            name, to_string(strategy)));
  // A mutex of such a strategy is a writer.
  if (traits(strategy).counted && !permit)
    permit = permit_spec{permit_spec::kind::writer, strategies::all_units, strategies::all_units};
  if (permit) {
    refuse_what_no_permit_has(name, options);
    require_sense(name, *permit);
  }
  if (auto const why = strategies::registration_of(strategy).why_not_on(sql); !why.empty())
    throw error(errc::unsupported, fmt::format("'{}': strategy {}: {}", name, to_string(strategy), why));
  if (!traits(strategy).has_expiry) refuse_what_needs_a_term(name, strategy, options);
  require_time("ttl", options.ttl, shortest_ttl);
  require_time("at_least", options.at_least, 0ms);
  if (options.hard_limit != 0ms) require_time("hard_limit", options.hard_limit, shortest_ttl);
  require_sense(options.retry);
  base::require_text("the note", options.note, base::longest_note);
  base::require_text("the label", options.label, base::longest_name);
  if (auto const* job = std::get_if<takes_over>(&options.owner)) {
    require(!job->text.empty(), "the text of owner takes_over is empty");
    base::require_text("the text of owner takes_over", job->text, base::longest_name);
  }
  require(!recursive || known_again(),
          "a recursive_mutex needs an owner that comes again: calling_thread or takes_over");
}

std::int64_t lock_spec::thread_of_owner() const noexcept {
  return std::holds_alternative<takes_over>(options.owner) ? 0 : this_thread_number();
}

owner_id lock_spec::owner() const {
  if (auto const* job = std::get_if<takes_over>(&options.owner)) return explicit_owner(job->text);
  return known_again() ? this_thread_owner() : fresh_owner();
}

}  // namespace rowlock::managing

#include "strategy/lease.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "base/random_id.hpp"

namespace rowlock::strategies {

using backend::value;

std::optional<granted> lease::update(backend::connection& c, take_request const& r,
                                     std::optional<superseded> const& old, boot_time_point deadline,
                                     boot_time_point& sent_at) const {
  value const hard_limit =
      r.hard_limit.count() == 0 ? value(nullptr) : value(std::int64_t{r.hard_limit.count()});
  value const old_term = old ? value(old->term.value) : value(nullptr);
  value const old_renewals = old && old->renewals ? value(*old->renewals) : value(nullptr);
  std::vector<value> const parameters{r.name,
                                      to_string(rowlock::strategy::lease),
                                      r.term.value,
                                      r.owner.host,
                                      r.owner.pid,
                                      r.owner.process,
                                      r.owner.thread,
                                      std::int64_t{r.ttl.count()},
                                      to_string(r.takeover),
                                      hard_limit,
                                      r.note,
                                      std::int64_t{r.fencing},
                                      old_term,
                                      old_renewals};
  sent_at = boot_clock::now();
  auto const done = c.execute(book_.at("lock_take"), parameters, deadline);
  if (done.rows.empty()) return std::nullopt;
  return granted{{r.fencing ? backend::as_int(done.rows.front().at(0)) : 0}};
}

outcome lease::take(backend::connection& c, take_request const& r, std::optional<superseded> const& old,
                    boot_time_point deadline, boot_time_point& sent_at) const {
  // A second round for a row that was absent, a third for one that was reaped just after it was put there.
  for (int round = 0; round < 3; ++round) {
    if (auto won = update(c, r, old, deadline, sent_at)) return *won;
    auto const row = rows_.read(c, r.name, deadline);
    if (row && row->holder.how != rowlock::strategy::lease)
      throw error(errc::strategy_mismatch,
                  fmt::format("'{}' is in use with strategy {}, not lease: use that one, or another name",
                              r.name, to_string(row->holder.how)));
    if (row && !row->term.empty()) return refused{row};
    if (old) return refused{row};  // what was to be superseded is gone; the caller looks again
    if (!row)
      c.execute(book_.at("lock_insert_free"), std::vector<value>{r.name, to_string(rowlock::strategy::lease)},
                deadline);
  }
  return refused{};
}

bool lease::release(backend::connection& c, name_and_term const& which, boot_time_point deadline) const {
  return !c.execute(book_.at("lock_release"), std::vector<value>{which.name, which.term.value}, deadline)
              .rows.empty();
}

bool lease::release_at_least(backend::connection& c, name_and_term const& which,
                             std::chrono::milliseconds at_least, boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value, std::int64_t{at_least.count()},
                                      base::random_id()};
  return !c.execute(book_.at("lock_release_at_least"), parameters, deadline).rows.empty();
}

}  // namespace rowlock::strategies

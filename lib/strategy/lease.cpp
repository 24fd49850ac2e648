#include "strategy/lease.hpp"

#include <rowlock/error.hpp>

namespace rowlock::strategies {

using backend::value;

namespace {

granted block_up_to(std::int64_t highest, take_request const& r) {
  return {{checked_token(highest, r.tokens) - r.tokens + 1}, r.tokens};
}

}  // namespace

outcome lease::take(backend::connection& c, take_request const& r, std::optional<superseded> const& old,
                    boot_time_point deadline, boot_time_point& sent_at) const {
  // A second round for an absent row and one without a token, a third if the reaper deletes it again.
  for (int round = 0; round < 3; ++round) {
    bool locked = false;
    try {
      if (auto decided = claim(c, r, old, round > 0, deadline, sent_at)) return *std::move(decided);
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      locked = true;  // a plain read shows its owner and strategy
    }
    auto const row = rows_.read(c, r.name, deadline);
    if (row) require_strategy(*row, kind_);
    bool const without_token = row && r.fencing && row->holder.token.value == 0;
    if (without_token && round == 0 && !locked && (old || row->takeable())) continue;
    if (locked || (row && !row->term.empty())) return refused_by(row, old);
    if (old) return refused_by(row, old);  // the term to replace is gone: the caller looks again
    // A free row that was refused twice may be one that only keeps the name.
    if (!row || round > 0)
      c.execute(book_.at("lock_insert_free"), std::vector<value>{r.name, to_string(kind_)}, deadline);
  }
  rows_.refuse_if_hidden(c, r.name, deadline);
  return refused_by({}, old);
}

lease::claiming lease::claim_of(take_request const& r, std::optional<superseded> const& old,
                                bool any_row) const {
  auto parameters = granting_parameters(r, kind_);
  parameters.emplace_back(std::int64_t{r.fencing ? r.tokens : 0});
  parameters.push_back(old ? value(old->term.value) : value(nullptr));
  parameters.push_back(old && old->renewals ? value(*old->renewals) : value(nullptr));
  parameters.emplace_back(old ? old->incarnation : std::int64_t{0});
  return {any_row ? "lock_take" : "lock_next_take", std::move(parameters)};
}

std::optional<outcome> lease::claim(backend::connection& c, take_request const& r,
                                    std::optional<superseded> const& old, bool any_row,
                                    boot_time_point deadline, boot_time_point& sent_at) const {
  auto const [statement, parameters] = claim_of(r, old, any_row);
  sent_at = boot_clock::now();
  auto const done = c.execute(book_.at(statement, r.durable), parameters, deadline);
  if (done.affected == 0) return std::nullopt;
  if (!r.fencing) return granted{};
  if (book_.returning()) return block_up_to(token_in(done, r.tokens), r);
  if (done.number) return block_up_to(*done.number, r);
  return read_back(c, r, deadline);
}

// Where the UPDATE returns nothing, and the driver no number. Its term was granted, so each error is
// in_doubt.
outcome lease::read_back(backend::connection& c, take_request const& r, boot_time_point deadline) const {
  try {
    auto row = rows_.read(c, r.name, deadline);
    if (row && row->term == r.term) return block_up_to(row->holder.token.value, r);
    return refused_by(std::move(row), {});  // taken over already: a pause of a whole ttl, or an operator
  } catch (error const& e) {
    throw error(errc::in_doubt, e.what(), e.statement(), e.sqlstate(), e.native_code());
  }
}

}  // namespace rowlock::strategies

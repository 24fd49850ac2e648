#include "strategy/unique_insert.hpp"

#include <rowlock/error.hpp>

#include "strategy/transaction.hpp"

namespace rowlock::strategies {

using namespace std::chrono_literals;
using backend::value;

outcome unique_insert::take(backend::connection& c, take_request const& r,
                            std::optional<superseded> const& old, boot_time_point deadline,
                            boot_time_point& sent_at) const {
  bool clear_first = old.has_value();
  if (r.look_first && !old) {
    auto row = rows_.read(c, r.name, deadline);
    if (row) require_strategy(*row, rowlock::strategy::unique_insert);
    if (row && !row->takeable()) return refused_by(std::move(row), old);
    clear_first = row.has_value();
  }
  // A second round for an expired row, more for rows that come and go meanwhile.
  for (int round = 0; round < 4; ++round) {
    sent_at = boot_clock::now();
    bool locked = false;
    try {
      if (auto won = insert(c, r, clear_first, old, deadline)) return *won;
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      locked = true;  // by a transaction: a plain read tells whose row it is, and of which strategy
    }
    auto row = rows_.read(c, r.name, deadline);
    if (row) require_strategy(*row, rowlock::strategy::unique_insert);
    if (locked || old || (row && !row->takeable())) return refused_by(std::move(row), old);
    clear_first = row.has_value();
  }
  rows_.refuse_if_hidden(c, r.name, deadline);
  return refused_by({}, old);
}

std::optional<granted> unique_insert::insert(backend::connection& c, take_request const& r, bool clear_first,
                                             std::optional<superseded> const& old,
                                             boot_time_point deadline) const {
  std::optional<granted> won;
  in_transaction(c, book_, deadline, [&] {
    if (clear_first) {
      std::vector<value> const what{r.name, to_string(rowlock::strategy::unique_insert),
                                    old ? value(old->term.value) : value(nullptr),
                                    old && old->renewals ? value(*old->renewals) : value(nullptr)};
      if (c.execute(book_.at("unique_clear"), what, deadline).affected == 0) return false;
    }
    // Where the INSERT has to change an existing row to say that there is one, it says 2, and is rolled back.
    if (c.execute(book_.at("unique_take"), granting_parameters(r, rowlock::strategy::unique_insert), deadline)
            .affected != 1)
      return false;
    won.emplace();
    if (!r.fencing) return true;
    won->token = tokens_.draw(c, r.name, deadline);
    c.execute(book_.at("unique_set_token"), std::vector<value>{r.name, r.term.value, won->token.value},
              deadline);
    return true;
  });
  return won;
}

bool unique_insert::release(backend::connection& c, name_and_term const& which,
                            boot_time_point deadline) const {
  return c.execute(book_.at("unique_release"), std::vector<value>{which.name, which.term.value}, deadline)
             .affected > 0;
}

}  // namespace rowlock::strategies

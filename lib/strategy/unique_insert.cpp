#include "strategy/unique_insert.hpp"

#include <fmt/format.h>

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
  // A second round for an expired row, more for rows that come and go.
  for (int round = 0; round < 4; ++round) {
    sent_at = boot_clock::now();
    bool locked = false;
    try {
      if (auto won = insert(c, r, clear_first, old, deadline)) return *won;
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      locked = true;  // a plain read shows its owner and strategy
    }
    auto row = rows_.read(c, r.name, deadline);
    if (row) require_strategy(*row, rowlock::strategy::unique_insert);
    if (locked || old || (row && !row->takeable())) return refused_by(std::move(row), old);
    clear_first = row.has_value();
  }
  rows_.refuse_if_hidden(c, r.name, deadline);
  return refused_by({}, old);
}

given_back unique_insert::give_back(backend::connection& c, name_and_term const& which,
                                    std::chrono::milliseconds at_least, boot_time_point deadline) const {
  if (at_least > 0ms && rows_.release_until(c, which, at_least, deadline)) return {.was_there = true};
  return row_strategy::give_back(c, which, 0ms, deadline);
}

std::optional<granted> unique_insert::insert(backend::connection& c, take_request const& r, bool clear_first,
                                             std::optional<superseded> const& old,
                                             boot_time_point deadline) const {
  if (clear_first || !book_.at_once()) return insert_by_steps(c, r, clear_first, old, deadline);
  try {
    return insert_at_once(c, r, deadline);
  } catch (error const& e) {
    // The reaper deleted the token's entry in between. If the fault is another one, the steps throw it.
    if (e.reason() != errc::failed || e.statement() != book_.at("at_once_draw").name) throw;
  }
  return insert_by_steps(c, r, false, old, deadline);
}

// All or nothing. If the reply is lost, the row might have term and token.
std::optional<granted> unique_insert::insert_at_once(backend::connection& c, take_request const& r,
                                                     boot_time_point deadline) const {
  auto const parameters = granting_parameters(r, rowlock::strategy::unique_insert);
  std::vector<value> const mine{r.name, r.term.value};
  std::vector<backend::step> steps{{book_.at("unique_take", r.durable), parameters}};
  if (r.fencing) {
    steps.push_back({book_.at("at_once_entry"), mine});
    steps.push_back({book_.at("at_once_draw"), mine});
  }
  auto const done = c.execute_at_once(steps, deadline);
  if (done.front().affected != 1) return std::nullopt;
  if (!r.fencing) return granted{};
  if (!done.back().rows.empty()) return granted{{token_in(done.back())}};
  give_back(c, {r.name, r.term}, 0ms, deadline);
  throw error(
      errc::failed,
      fmt::format(
          "'{}': its token can't be written: a trigger, or row-level security, keeps this role from it",
          r.name));
}

std::optional<granted> unique_insert::insert_by_steps(backend::connection& c, take_request const& r,
                                                      bool clear_first, std::optional<superseded> const& old,
                                                      boot_time_point deadline) const {
  std::optional<granted> won;
  auto const insert = [&] {
    if (clear_first) {
      std::vector<value> what{r.name, to_string(rowlock::strategy::unique_insert),
                              old ? value(old->term.value) : value(nullptr),
                              old && old->renewals ? value(*old->renewals) : value(nullptr)};
      what.emplace_back(old ? old->incarnation : std::int64_t{0});
      if (c.execute(book_.at("unique_clear"), what, deadline).affected == 0) return false;
    }
    // On some servers an INSERT that meets a row counts 2, and is rolled back.
    if (c.execute(book_.at("unique_take"), granting_parameters(r, rowlock::strategy::unique_insert), deadline)
            .affected != 1)
      return false;
    won.emplace();
    if (!r.fencing) return true;
    won->token = tokens_.draw(c, r.name, deadline);
    c.execute(book_.at("unique_set_token"), std::vector<value>{r.name, r.term.value, won->token.value},
              deadline);
    return true;
  };
  in_transaction(c, book_, deadline, insert, r.durable);
  return won;
}

}  // namespace rowlock::strategies

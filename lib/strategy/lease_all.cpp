// Several leases at once: lib/doc/all_at_once.md.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>

#include "strategy/lease.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {

using backend::as_int;
using backend::as_text;
using backend::value;

namespace {

std::string to_json(std::span<wanted_lock const> wanted) {
  auto list = nlohmann::json::array();
  for (auto const& w : wanted) {
    auto& one = list.emplace_back();
    one = {{"name", w.name}, {"term", w.term.value}};
    if (w.thread) one["thread"] = *w.thread;
    if (!w.old) continue;
    one["old"] = w.old->term.value;
    if (w.old->renewals) one["renewals"] = *w.old->renewals;
  }
  return list.dump();
}

// As for one lock, but name and term, which are in the list.
std::vector<value> parameters_for_all(take_request const& how, std::string list) {
  auto parameters = granting_parameters(how, rowlock::strategy::lease);
  parameters.erase(parameters.begin() + 2);
  parameters.front() = std::move(list);
  parameters.emplace_back(std::int64_t{how.fencing ? how.tokens : 0});
  return parameters;
}

// As the statement has it. If what was to be superseded is gone, the caller looks again.
bool may_be_taken(std::optional<term_row> const& row, std::optional<superseded> const& old) {
  if (!old) return !row || row->takeable();
  if (!row || row->term != old->term) return false;
  return old->renewals ? row->renewals == *old->renewals : !row->holder.revoked;
}

}  // namespace

struct lease::several {
  several(take_request const& r, std::vector<wanted_lock> w)
      : how(r), with_terms(std::move(w)), list(to_json(with_terms)), parameters(parameters_for_all(r, list)) {
    for (auto const& one : with_terms) wanted.push_back({one.name, one.term});
  }
  several(take_request const& r, std::span<wanted_lock const> w)
      : several(r, std::vector<wanted_lock>(w.begin(), w.end())) {}

  /// @return the number of the one with that name
  std::optional<std::size_t> find(std::string_view name) const {
    auto const at = std::find_if(wanted.begin(), wanted.end(), [&](auto const& w) { return w.name == name; });
    if (at == wanted.end()) return std::nullopt;
    return static_cast<std::size_t>(at - wanted.begin());
  }
  fencing_token token(std::int64_t highest) const {
    return how.fencing ? fencing_token{highest} : fencing_token{};
  }

  take_request const& how;
  std::vector<wanted_lock> with_terms;
  std::vector<name_and_term> wanted{};
  std::string list;
  std::vector<value> parameters;
};

outcome_for_all lease::take_all(backend::connection& c, take_request const& how,
                                std::span<wanted_lock const> wanted, boot_time_point deadline,
                                boot_time_point& sent_at) const {
  several const all(how, wanted);
  std::vector<std::optional<term_row>> rows;
  // A second round for rows that were absent, a third for one that was reaped just after it was put there.
  for (int round = 0; round < 3; ++round) {
    bool locked = false;
    try {
      auto const got = claim_each(c, all, all.wanted.size(), deadline, sent_at);
      if (std::find(got.begin(), got.end(), std::nullopt) == got.end()) {
        all_granted done;
        for (auto const& one : got) done.tokens.push_back(*one);
        return done;
      }
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      locked = true;  // the whole file
    }
    rows = rows_.read_all(c, all.wanted, deadline);
    bool in_the_way = locked;
    bool absent = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]) require_strategy(*rows[i], rowlock::strategy::lease);
      in_the_way = in_the_way || !may_be_taken(rows[i], wanted[i].old);
      absent = absent || !rows[i];
    }
    if (in_the_way || !absent) return all_refused{std::move(rows)};
    if (!put_free_rows(c, all, rows, deadline)) return all_refused{std::move(rows)};
  }
  auto const missing = std::find(rows.begin(), rows.end(), std::nullopt);
  rows_.refuse_if_hidden(c, wanted[static_cast<std::size_t>(missing - rows.begin())].name, deadline);
  return all_refused{std::move(rows)};
}

std::vector<std::optional<granted>> lease::take_each(backend::connection& c, take_request const& how,
                                                     std::span<wanted_lock const> wanted,
                                                     boot_time_point deadline,
                                                     boot_time_point& sent_at) const {
  std::vector<std::optional<granted>> done(wanted.size());
  highest_tokens got;
  try {
    got = claim_each(c, several(how, wanted), 1, deadline, sent_at);
  } catch (error const& e) {
    if (e.reason() != errc::row_locked) throw;
    return done;
  }
  for (std::size_t i = 0; i < done.size(); ++i)
    if (got[i]) done[i] = how.fencing ? granted{{got[i]->value - how.tokens + 1}, how.tokens} : granted{};
  return done;
}

/// Takes what may be taken, if that is `at_least` so many.
lease::highest_tokens lease::claim_each(backend::connection& c, several const& all, std::size_t at_least,
                                        boot_time_point deadline, boot_time_point& sent_at) const {
  if (!book_.returning()) return lock_and_claim(c, all, at_least, deadline, sent_at);
  auto parameters = all.parameters;
  parameters.emplace_back(static_cast<std::int64_t>(at_least));
  sent_at = boot_clock::now();
  highest_tokens got(all.wanted.size());
  for (auto const& columns : c.execute(book_.at("all_take"), parameters, deadline).rows)
    if (auto const at = all.find(as_text(columns.at(0)))) got[*at] = all.token(as_int(columns.at(1)));
  return got;
}

lease::highest_tokens lease::lock_and_claim(backend::connection& c, several const& all, std::size_t at_least,
                                            boot_time_point deadline, boot_time_point& sent_at) const {
  highest_tokens got;
  in_transaction(c, book_, deadline, [&] {
    got.assign(all.wanted.size(), std::nullopt);
    std::vector<bool> is_due(all.wanted.size());
    auto const rows = c.execute(book_.at("all_take_due"),
                                std::vector<value>{all.parameters.at(0), all.parameters.at(1)}, deadline);
    for (auto const& columns : rows.rows)
      if (auto const at = all.find(as_text(columns.at(0)))) is_due[*at] = true;
    // The UPDATE would wait for those that were skipped.
    std::vector<wanted_lock> mine;
    for (std::size_t i = 0; i < is_due.size(); ++i)
      if (is_due[i]) mine.push_back(all.with_terms[i]);
    if (mine.size() < at_least) return false;
    several const due(all.how, std::move(mine));
    auto parameters = due.parameters;
    parameters.emplace_back(static_cast<std::int64_t>(at_least));
    sent_at = boot_clock::now();
    c.execute(book_.at("all_take"), parameters, deadline);
    for (auto const& row : rows_.read_all(c, due.wanted, deadline)) {
      auto const at = row ? all.find(row->name) : std::nullopt;
      if (!at || row->term != all.wanted[*at].term) {
        got.assign(all.wanted.size(), std::nullopt);
        return false;
      }
      got[*at] = all.token(row->holder.token.value);
    }
    return true;
  });
  return got;
}

bool lease::put_free_rows(backend::connection& c, several const& all,
                          std::span<std::optional<term_row> const> rows, boot_time_point deadline) const try {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!rows[i])
      c.execute(book_.at("lock_insert_free"),
                std::vector<value>{all.wanted[i].name, to_string(rowlock::strategy::lease)}, deadline);
  return true;
} catch (error const& e) {
  if (e.reason() != errc::row_locked) throw;
  return false;
}

std::vector<given_back> lease::give_back_all(backend::connection& c, std::span<name_and_term const> which,
                                             boot_time_point deadline) const {
  std::vector<given_back> done(which.size());
  auto const mark = [&](backend::row const& columns) {
    auto const at = std::find_if(which.begin(), which.end(),
                                 [&](auto const& w) { return w.name == as_text(columns.at(0)); });
    if (at != which.end())
      done[static_cast<std::size_t>(at - which.begin())] = {.was_there = true,
                                                            .others_wait = as_int(columns.at(1)) != 0};
  };
  std::vector<value> const list{strategies::to_json(which)};
  if (book_.returning()) {
    for (auto const& columns : c.execute(book_.at("all_release"), list, deadline).rows) mark(columns);
    return done;
  }
  in_transaction(c, book_, deadline, [&] {
    std::vector<name_and_term> mine;
    for (auto const& columns : c.execute(book_.at("all_release_due"), list, deadline).rows) mark(columns);
    for (std::size_t i = 0; i < done.size(); ++i)
      if (done[i].was_there) mine.push_back(which[i]);
    if (mine.empty()) return false;
    c.execute(book_.at("all_release"), std::vector<value>{strategies::to_json(mine)}, deadline);
    return true;
  });
  return done;
}

}  // namespace rowlock::strategies

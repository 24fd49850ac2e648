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
  parameters.emplace_back(std::int64_t{how.fencing ? 1 : 0});
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
  several(take_request const& r, std::span<wanted_lock const> w)
      : how(r), list(to_json(w)), parameters(parameters_for_all(r, list)) {
    for (auto const& one : w) wanted.push_back({one.name, one.term});
  }
  take_request const& how;
  std::vector<name_and_term> wanted;
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
      if (auto got = claim_all(c, all, deadline, sent_at)) return *std::move(got);
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

std::optional<all_granted> lease::claim_all(backend::connection& c, several const& all,
                                            boot_time_point deadline, boot_time_point& sent_at) const {
  if (!book_.returning()) return lock_and_claim_all(c, all, deadline, sent_at);
  sent_at = boot_clock::now();
  auto const done = c.execute(book_.at("all_take"), all.parameters, deadline);
  if (done.rows.size() != all.wanted.size()) return std::nullopt;
  all_granted got{std::vector<fencing_token>(all.wanted.size())};
  if (!all.how.fencing) return got;
  for (auto const& columns : done.rows) {
    auto const at = std::find_if(all.wanted.begin(), all.wanted.end(),
                                 [&](auto const& w) { return w.name == as_text(columns.at(0)); });
    if (at != all.wanted.end())
      got.tokens[static_cast<std::size_t>(at - all.wanted.begin())].value = as_int(columns.at(1));
  }
  return got;
}

std::optional<all_granted> lease::lock_and_claim_all(backend::connection& c, several const& all,
                                                     boot_time_point deadline,
                                                     boot_time_point& sent_at) const {
  std::optional<all_granted> got;
  in_transaction(c, book_, deadline, [&] {
    got.reset();
    auto const due = c.execute(book_.at("all_take_due"),
                               std::vector<value>{all.parameters.at(0), all.parameters.at(1)}, deadline);
    if (due.rows.size() != all.wanted.size()) return false;
    sent_at = boot_clock::now();
    c.execute(book_.at("all_take"), all.parameters, deadline);
    all_granted mine;
    auto const rows = rows_.read_all(c, all.wanted, deadline);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i] || rows[i]->term != all.wanted[i].term) return false;
      mine.tokens.push_back(all.how.fencing ? rows[i]->holder.token : fencing_token{});
    }
    got = std::move(mine);
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

// Several leases at once: lib/doc/all_at_once.md.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "strategy/lease.hpp"

namespace rowlock::strategies {

using backend::as_int;
using backend::as_text;
using backend::value;

namespace {

std::string to_json(std::span<wanted_lock const> wanted) {
  std::string list;
  for (auto const& w : wanted) {
    begin_entry(list, w.name, w.term);
    if (w.thread) fmt::format_to(std::back_inserter(list), R"(,"thread":{})", *w.thread);
    if (w.old) {
      list += R"(,"old":)";
      base::append_json(list, w.old->term.value);
      if (w.old->renewals)
        fmt::format_to(std::back_inserter(list), R"(,"renewals":{},"incarnation":{})", *w.old->renewals,
                       w.old->incarnation);
    }
    list += '}';
  }
  return in_brackets(std::move(list));
}

/// @return its index
template <class Named>
std::optional<std::size_t> find(std::span<Named const> in_order, std::string_view name) {
  auto const at = std::lower_bound(in_order.begin(), in_order.end(), name,
                                   [](auto const& one, std::string_view n) { return one.name < n; });
  if (at == in_order.end() || at->name != name) return std::nullopt;
  return static_cast<std::size_t>(at - in_order.begin());
}

// As for one lock, but the list has names and terms.
std::vector<value> parameters_for_all(take_request const& how, std::string list) {
  auto parameters = granting_parameters(how, rowlock::strategy::lease);
  parameters.erase(parameters.begin() + 2);
  parameters.front() = std::move(list);
  parameters.emplace_back(std::int64_t{how.fencing ? how.tokens : 0});
  return parameters;
}

// As the statement decides. If the term to replace is gone, the caller looks again.
bool may_be_taken(std::optional<term_row> const& row, std::optional<superseded> const& old) {
  if (!old) return !row || row->takeable();
  if (!row || row->term != old->term) return false;
  return old->renewals ? row->renewals == *old->renewals : !row->holder.revoked;
}

}  // namespace

struct lease::several {
  several(take_request const& r, std::span<wanted_lock const> w)
      : how(r), wanted(w), parameters(parameters_for_all(r, to_json(w))) {}

  fencing_token token(std::int64_t highest) const {
    return how.fencing ? fencing_token{checked_token(highest, how.tokens)} : fencing_token{};
  }
  std::vector<name_and_term> terms() const {
    std::vector<name_and_term> all;
    all.reserve(wanted.size());
    for (auto const& one : wanted) all.push_back({one.name, one.term});
    return all;
  }

  take_request const& how;
  std::span<wanted_lock const> wanted;
  std::vector<value> parameters;
};

outcome_for_all lease::take_all(backend::connection& c, take_request const& how,
                                std::span<wanted_lock const> wanted, boot_time_point deadline,
                                boot_time_point& sent_at) const {
  several const all(how, wanted);
  std::vector<std::optional<term_row>> rows;
  // A second round for absent rows, a third if the reaper deletes one again.
  for (int round = 0; round < 3; ++round) {
    bool locked = false;
    try {
      auto const got = claim_each(c, all, all.wanted.size(), deadline, sent_at);
      auto const missing = std::count(got.begin(), got.end(), std::nullopt);
      if (missing == 0) {
        all_granted done;
        for (auto const& one : got) done.tokens.push_back(*one);
        return done;
      }
      if (missing != std::ssize(got))
        throw error(errc::in_doubt, "the database has answered that some were taken, not all or none");
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      locked = true;  // the whole file
    }
    rows = rows_.read_all(c, all.terms(), deadline);
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
  auto const got = claim_each(c, several(how, wanted), 1, deadline, sent_at);
  for (std::size_t i = 0; i < done.size(); ++i)
    if (got[i]) done[i] = how.fencing ? granted{{got[i]->value - how.tokens + 1}, how.tokens} : granted{};
  return done;
}

/// Takes what it can if that is `at_least` so many, else nothing.
lease::highest_tokens lease::claim_each(backend::connection& c, several const& all, std::size_t at_least,
                                        boot_time_point deadline, boot_time_point& sent_at) const {
  auto parameters = all.parameters;
  parameters.emplace_back(static_cast<std::int64_t>(at_least));
  sent_at = boot_clock::now();
  highest_tokens got(all.wanted.size());
  for (auto const& columns : rows_of(c, book_.at("all_take", all.how.durable), parameters, deadline)) {
    auto const* const name = columns.size() < 2 ? nullptr : std::get_if<std::string>(&columns[0]);
    auto const* const token = name == nullptr ? nullptr : std::get_if<std::int64_t>(&columns[1]);
    if (token == nullptr) throw error(errc::in_doubt, "the database has answered without a token");
    if (auto const at = find(all.wanted, *name)) got[*at] = all.token(*token);
  }
  return got;
}

// Where an UPDATE can neither skip locked rows nor return rows: a statement before it locks the free rows,
// and another after it returns them.
backend::row_list lease::rows_of(backend::connection& c, backend::statement const& s,
                                 std::span<value const> parameters, boot_time_point deadline) const {
  if (book_.returning()) return c.execute(s, parameters, deadline).rows;
  std::array<backend::step, 3> const steps{
      {{book_.at(s.name + "_due"), parameters}, {s, parameters}, {book_.at(s.name + "_done"), parameters}}};
  return c.execute_at_once(steps, deadline).back().rows;
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
  std::vector<value> const list{strategies::to_json(which)};
  for (auto const& columns : rows_of(c, book_.at("all_release"), list, deadline))
    if (auto const at = find(which, as_text(columns.at(0))))
      done[*at] = {.was_there = true, .others_wait = as_int(columns.at(1)) != 0};
  return done;
}

}  // namespace rowlock::strategies

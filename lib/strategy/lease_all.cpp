// Several leases at once: lib/doc/all_at_once.md.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
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
      auto const got = claim_several(c, all, true, deadline, sent_at);
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
  auto const got = claim_several(c, several(how, wanted), false, deadline, sent_at);
  for (std::size_t i = 0; i < done.size(); ++i)
    if (got[i]) done[i] = how.fencing ? granted{{got[i]->value - how.tokens + 1}, how.tokens} : granted{};
  return done;
}

/// Takes what it can, or nothing if that is not all of them.
lease::highest_tokens lease::claim_several(backend::connection& c, several const& all, bool all_or_none,
                                           boot_time_point deadline, boot_time_point& sent_at) const {
  auto parameters = all.parameters;
  if (all_or_none) parameters.emplace_back(std::ssize(all.wanted));
  sent_at = boot_clock::now();
  auto const done =
      c.execute(book_.at(all_or_none ? "all_take" : "each_take", all.how.durable), parameters, deadline);
  if (book_.returning()) return tokens_in(done.rows, all);
  highest_tokens got(all.wanted.size());
  if (done.affected == 0) return got;
  bool const all_of_them = done.affected == std::ssize(all.wanted);
  if (!all_of_them || (all.how.fencing && !done.number)) return read_back(c, all, deadline);
  std::fill(got.begin(), got.end(), all.token(done.number.value_or(0)));
  return got;
}

lease::highest_tokens lease::tokens_in(backend::row_list const& rows, several const& all) {
  highest_tokens got(all.wanted.size());
  for (auto const& columns : rows) {
    auto const* const name = columns.size() < 2 ? nullptr : std::get_if<std::string>(&columns[0]);
    auto const* const token = name == nullptr ? nullptr : std::get_if<std::int64_t>(&columns[1]);
    if (token == nullptr) throw error(errc::in_doubt, "the database has answered without a token");
    if (auto const at = find(all.wanted, *name)) got[*at] = all.token(*token);
  }
  return got;
}

// Where an UPDATE returns no rows, and took some of the names, or tokens of their own. Terms were granted, so
// each error is in_doubt.
lease::highest_tokens lease::read_back(backend::connection& c, several const& all,
                                       boot_time_point deadline) const {
  try {
    std::vector<value> const list{all.parameters.front()};
    return tokens_in(c.execute(book_.at("all_take_done"), list, deadline).rows, all);
  } catch (error const& e) {
    throw error(errc::in_doubt, e.what(), e.statement(), e.sqlstate(), e.native_code());
  }
}

// Each in autocommit: one that waits for its row has no other one locked.
bool lease::put_free_rows(backend::connection& c, several const& all,
                          std::span<std::optional<term_row> const> rows, boot_time_point deadline) const try {
  std::vector<std::array<value, 2>> absent;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!rows[i]) absent.push_back({all.wanted[i].name, to_string(rowlock::strategy::lease)});
  std::vector<backend::step> steps;
  steps.reserve(absent.size());
  for (auto const& row : absent) steps.push_back({book_.at("lock_insert_free"), row});
  c.execute_each(steps, deadline);
  return true;
} catch (error const& e) {
  if (e.reason() != errc::row_locked) throw;
  return false;
}

std::vector<given_back> lease::give_back_all(backend::connection& c, std::span<name_and_term const> which,
                                             boot_time_point deadline) const {
  std::vector<given_back> done(which.size());
  std::vector<value> const list{strategies::to_json(which)};
  auto const came = c.execute(book_.at("all_release"), list, deadline);
  if (!book_.returning()) return told_by(came, std::move(done));
  for (auto const& columns : came.rows)
    if (auto const at = find(which, as_text(columns.at(0))))
      done[*at] = {.was_there = true, .others_wait = as_int(columns.at(1)) != 0};
  return done;
}

// The reply's number has a bit for each of the first 63: whether others wait, if all were given back, else
// which were. Then others may wait for these.
std::vector<given_back> lease::told_by(backend::result const& came, std::vector<given_back> done) {
  constexpr std::size_t bits = 63;
  if (came.affected == 0) return done;
  bool const all = came.affected == std::ssize(done);
  if (!all && !came.number)
    throw error(errc::in_doubt, "the database has not answered which locks it has released", "all_release",
                "", 0);
  auto const told = static_cast<std::uint64_t>(came.number.value_or(0));
  std::int64_t left = came.affected;
  for (std::size_t i = 0; i < done.size(); ++i) {
    bool const bit = i < bits && (told >> i & 1) != 0;
    done[i].was_there = all || bit || (i == bits && left > 0);
    done[i].others_wait = all ? bit : done[i].was_there;
    if (done[i].was_there) --left;
  }
  return done;
}

}  // namespace rowlock::strategies

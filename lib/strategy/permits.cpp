#include "strategy/permits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <rowlock/error.hpp>

#include "base/random_id.hpp"
#include "strategy/counts.hpp"
#include "strategy/row_strategy.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {

using namespace std::chrono_literals;
using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

namespace {

// Longer than two looks of the first waiter, and a slow reply.
constexpr std::chrono::milliseconds intent_lasts = 200ms;

// Of one statement. Where an UPDATE can't skip locked rows, each has a bit.
constexpr std::size_t most_purged = 64;

value text_or_null(std::string const& text) { return text.empty() ? value(nullptr) : value(text); }
value int_or_null(std::optional<std::int64_t> const& n) { return n ? value(*n) : value(nullptr); }

bool obeys(wanted_permit const& p) noexcept { return p.where != wanted_permit::place::first; }
value obeyed(wanted_permit const& p) { return obeys(p) ? value(p.intent) : value(nullptr); }

}  // namespace

/// The reply to permit_look.
struct permits::standing {
  std::optional<std::int64_t> limit{};
  std::int64_t live = 0;  ///< units that have not expired
  std::int64_t all = 0;
  std::int64_t intended = 0;  ///< units of another caller's intent

  bool fits(std::int64_t units, std::int64_t taken) const noexcept {
    return units + taken + intended <= *limit;
  }
};

/// @return nothing if the name has no anchor
std::optional<permits::standing> permits::look(backend::connection& c, std::string const& name,
                                               value const& obeyed, boot_time_point deadline) const {
  auto const found = c.execute(book_.at("permit_look"), std::vector<value>{name, obeyed}, deadline);
  if (found.rows.empty()) return std::nullopt;
  auto const& columns = found.rows.front();
  auto const& how = as_text(columns.at(0));
  if (!strategy_from_string(how))
    throw error(errc::schema_new,
                fmt::format("lock '{}': its strategy is '{}', which this version does not know", name, how));
  if (how != to_string(which_))
    throw error(errc::strategy_mismatch,
                fmt::format("'{}' is in use with strategy {}, not {}: use that one, or another name", name,
                            how, to_string(which_)));
  standing now{{}, as_count(columns.at(2)), as_count(columns.at(3)), as_count(columns.at(4))};
  if (!is_null(columns.at(1))) now.limit = as_count(columns.at(1));
  return now;
}

std::optional<permits::standing> permits::look(backend::connection& c, take_request const& r,
                                               boot_time_point deadline) const {
  auto now = look(c, r.name, obeyed(r.permit), deadline);
  if (!now) return std::nullopt;
  now->live -= r.permit.replaced_units;
  now->all -= r.permit.replaced_units;
  if (r.permit.limit) now->limit = r.permit.limit;
  if (!now->limit)
    throw error(errc::invalid_argument,
                fmt::format("'{}' has no limit: name one, or set one with semaphore::set_limit()", r.name));
  if (r.permit.units > *now->limit)
    throw error(errc::invalid_argument, fmt::format("'{}': {} units can never be taken: the limit is {}",
                                                    r.name, r.permit.units, *now->limit));
  return now;
}

void permits::set_limit(backend::connection& c, std::string const& name, std::int64_t limit,
                        boot_time_point deadline) const {
  std::vector<value> const what{name, to_string(which_), limit};
  // As in take(): the reaper can delete the anchor, and a row can be one that only keeps the name.
  for (int round = 0; round < 4; ++round) {
    if (c.execute(book_.at("permit_set_limit"), what, deadline).affected > 0) return;
    if (!look(c, name, nullptr, deadline) || round > 0)
      c.execute(book_.at("lock_insert_free"), std::vector<value>{name, to_string(which_)}, deadline);
  }
  rows_.refuse_if_hidden(c, name, deadline);
  throw error(errc::conflict, fmt::format("'{}': its row is deleted as soon as it is made", name));
}

std::optional<std::int64_t> permits::free_units(backend::connection& c, std::string const& name,
                                                std::optional<std::int64_t> limit,
                                                boot_time_point deadline) const {
  auto const now = look(c, name, nullptr, deadline);
  if (!limit && now) limit = now->limit;
  if (!limit) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - (now ? now->live : 0));
}

outcome permits::take(backend::connection& c, take_request const& r, std::optional<superseded> const& old,
                      boot_time_point deadline, boot_time_point& sent_at) const {
  if (old) return refused{};
  bool look_first = r.look_first;
  // A second round for a missing anchor or expired permits, more if other takers come in between.
  for (int round = 0; round < 4; ++round) {
    if (look_first) {
      auto const now = look(c, r, deadline);
      if (now && !now->fits(r.permit.units, now->live)) return refuse(c, r, false, deadline);
      if (now && !now->fits(r.permit.units, now->all)) purge(c, r.name, deadline);
      // A row that was refused twice may be one that only keeps the name.
      if (!now || round > 1)
        c.execute(book_.at("lock_insert_free"), std::vector<value>{r.name, to_string(which_)}, deadline);
    }
    try {
      if (auto const won = grant(c, r, deadline, sent_at)) return *won;
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      auto const now = look(c, r, deadline);
      return refuse(c, r, !now || now->fits(r.permit.units, now->live), deadline);
    }
    look_first = true;
  }
  rows_.refuse_if_hidden(c, r.name, deadline);
  auto const now = look(c, r, deadline);
  return refuse(c, r, now && now->fits(r.permit.units, now->all), deadline);
}

std::optional<granted> permits::grant(backend::connection& c, take_request const& r, boot_time_point deadline,
                                      boot_time_point& sent_at) const {
  sent_at = boot_clock::now();
  auto const token = count(c, r, deadline);
  if (!token) return std::nullopt;
  return granted{{*token}};
}

/// @return the token if granted (0 without fencing)
std::optional<std::int64_t> permits::count(backend::connection& c, take_request const& r,
                                           boot_time_point deadline) const {
  auto wanted = granting_parameters(r, which_);
  wanted.emplace_back(r.permit.units);
  wanted.push_back(int_or_null(r.permit.limit));
  wanted.push_back(obeyed(r.permit));
  wanted.push_back(text_or_null(r.permit.replaces.value));
  std::vector<value> const name{r.name, to_string(which_), r.term.value};
  std::vector<value> const counted{r.name, r.term.value, r.permit.intent};
  std::vector<value> const replaced{r.name, r.term.value, r.permit.replaces.value};
  std::vector<value> const mine{r.name, r.term.value};
  std::vector<backend::step> steps{{book_.at("permit_anchor", r.durable), name},
                                   {book_.at("permit_take"), wanted},
                                   {book_.at("permit_count"), counted}};
  if (!r.permit.replaces.empty()) steps.push_back({book_.at("permit_replaced"), replaced});
  if (!book_.returning()) steps.push_back({book_.at("permit_token"), mine});
  auto const done = run_together(c, book_, steps, deadline, r.durable);
  auto const& reply = book_.returning() ? done.at(1) : done.back();
  if (reply.rows.empty()) return std::nullopt;
  return r.fencing ? token_in(reply) : 0;
}

void permits::purge(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  std::vector<name_and_term> expired;
  for (auto const& columns : c.execute(book_.at("permit_expired"), std::vector<value>{name}, deadline).rows)
    expired.push_back({name, {as_text(columns.at(0))}});
  purge(c, book_, expired, deadline);
}

std::int64_t permits::purge(backend::connection& c, backend::statement_book const& book,
                            std::span<name_and_term const> expired, boot_time_point deadline) {
  std::int64_t gone = 0;
  while (!expired.empty()) {
    auto const part = expired.first(std::min(expired.size(), most_purged));
    expired = expired.subspan(part.size());
    std::vector<value> const list{to_json(part)};
    if (book.returning()) {
      gone += c.execute(book.at("permit_purge"), list, deadline).affected;
      continue;
    }
    std::array<backend::step, 3> const steps{{{book.at("permit_purge_due"), list},
                                              {book.at("permit_purge"), list},
                                              {book.at("permit_purge_done"), {}}}};
    gone += as_count(c.execute_at_once(steps, deadline).back().rows.at(0).at(0));
  }
  return gone;
}

// A hint: if it fails, only the order suffers.
bool permits::intend(backend::connection& c, take_request const& r, boot_time_point deadline) const {
  using place = wanted_permit::place;
  if (r.permit.where == place::in_line) return false;
  std::vector<value> const what{
      r.name, to_string(which_), r.permit.units, r.permit.intent,
      r.permit.where == place::first ? value(std::int64_t{intent_lasts.count()}) : value(nullptr)};
  try {
    return c.execute(book_.at("permit_intend"), what, deadline).affected > 0;
  } catch (error const& e) {
    if (e.reason() != errc::row_locked && e.reason() != errc::conflict) throw;
    return false;
  }
}

refused permits::refuse(backend::connection& c, take_request const& r, bool by_nobody,
                        boot_time_point deadline) const {
  bool const intends = intend(c, r, deadline);
  return {.row = rows_.read(c, r.name, deadline),
          .by_nobody = by_nobody,
          .waited_for = intends && r.permit.where == wanted_permit::place::without_line};
}

given_back permits::give_back(backend::connection& c, name_and_term const& which,
                              std::chrono::milliseconds at_least, boot_time_point deadline) const {
  if (at_least.count() > 0) {
    std::vector<value> const until{which.name, which.term.value, std::int64_t{at_least.count()},
                                   base::random_id()};
    if (c.execute(book_.at("permit_release_at_least"), until, deadline).affected > 0)
      return {.was_there = true};
  }
  std::vector<value> const mine{which.name, which.term.value};
  return what_became(c.execute(book_.at("permit_release"), mine, deadline));
}

given_back permits::give_back_at_queue(backend::connection& c, name_and_term const& which,
                                       boot_time_point deadline) const {
  std::vector<value> const mine{which.name, which.term.value};
  auto const left = c.execute_and_leave_queue(book_.at("permit_release"), mine, deadline);
  auto done = what_became(left.done);
  done.others_wait = left.others_wait.value_or(done.others_wait);
  return done;
}

std::optional<term_row> permits::find_doubtful(backend::connection& c, std::string const& name,
                                               std::span<term_id const> terms,
                                               boot_time_point deadline) const {
  for (auto const& term : terms) {
    auto const found = c.execute(book_.at("permit_token"), std::vector<value>{name, term.value}, deadline);
    if (found.rows.empty()) continue;
    term_row row;
    row.name = name;
    row.term = term;
    row.holder.token.value = as_int(found.rows[0].at(0));
    return row;
  }
  return std::nullopt;
}

}  // namespace rowlock::strategies

#include "strategy/row_lock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "strategy/row_strategy.hpp"
#include "strategy/tokens.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {

using backend::value;

namespace {

constexpr std::chrono::seconds longest_look{1};

void end_transaction(backend::connection& c, boot_time_point deadline) { c.script("ROLLBACK", deadline); }

error busy(std::string const& name) {
  return {errc::row_locked, fmt::format("'{}' is held by another session", name)};
}

// A demoted server's session keeps its row locks, but the new primary grants the same locks. [C63]
void require_writable(backend::connection& c, backend::value const& read_only) {
  if (backend::as_int(read_only) == 0) return;
  c.close();  // and so the lock
  throw error(errc::read_only,
              "the server of this session takes no writes any more, as after a switch-over: another server "
              "may grant its row locks; connect to the primary, or name all hosts in the URL");
}

// @return whether the locked anchor was long unused
bool long_unused(backend::connection& c, backend::row const& anchor) {
  require_writable(c, anchor.at(1));
  return backend::as_int(anchor.at(0)) != 0;
}

}  // namespace

outcome row_lock::take(backend::connection& c, take_request const& r, std::optional<superseded> const&,
                       boot_time_point deadline, boot_time_point& sent_at) const {
  sent_at = boot_clock::now();
  granted won;
  try {
    won.long_unused = lock_anchor(c, r, deadline);
  } catch (error const& why) {
    if (why.reason() != errc::row_locked) throw;
    return c.usable() ? look_closer(c, r.name, boot_clock::now() + r.wait->reply_timeout) : refused{};
  }
  if (!r.fencing) return won;
  try {
    won.token = draw_token(c, r);
  } catch (...) {
    c.close();  // and so the lock
    throw;
  }
  return won;
}

// @return whether the anchor was long unused
// @throws error(errc::row_locked) if another session has it when the wait ends.
bool row_lock::lock_anchor(backend::connection& c, take_request const& r, boot_time_point deadline) const {
  auto const& [only_look, stop, reply_timeout, another_session] = *r.wait;
  std::vector<value> const parameters{r.name, std::int64_t{r.ttl.count()}};
  auto const& statement = book_.at(only_look ? "row_try" : "row_wait");
  // A second round for an absent anchor, more if the reaper deletes it again.
  for (int round = 0; round < 5; ++round) {
    auto const found = c.wait_for_row(statement, parameters, deadline, reply_timeout, stop);
    if (!found.rows.empty()) return long_unused(c, found.rows.front());
    // Outside of the transaction: an INSERT could wait for its locks.
    auto const reply_by = boot_clock::now() + reply_timeout;
    end_transaction(c, reply_by);
    auto const row = rows_.read(c, r.name, reply_by);
    if (row) require_strategy(*row, rowlock::strategy::row_lock);
    if (row && only_look) {
      if (!only_looked_at(c, r.name, reply_by)) throw_refused(c, r.name, reply_by);
      auto const soon = std::min<boot_time_point>(reply_by, boot_clock::now() + longest_look);
      auto const late = c.wait_for_row(book_.at("row_wait"), parameters, soon, reply_timeout, stop);
      if (!late.rows.empty()) return long_unused(c, late.rows.front());
      end_transaction(c, reply_by);
    }
    if (!row) make_anchor(c, r.name, reply_by);
  }
  throw_refused(c, r.name, boot_clock::now() + reply_timeout);
}

// Without an anchor no session holds the lock: a transaction is just inserting one.
refused row_lock::look_closer(backend::connection& c, std::string const& name,
                              boot_time_point deadline) const {
  refused why;
  try {
    if (auto found = holder(c, name, deadline))
      why.row.emplace().holder = *std::move(found);
    else
      why.by_nobody = !rows_.read(c, name, deadline);
  } catch (error const&) {  // busy, without a holder to report
  }
  return why;
}

// On a second session, only for this draw, so that many holders fit into the server's limit. The holding
// session is pinged afterwards: if it lives, it had the lock during the draw, and no other owner drew in
// between.
fencing_token row_lock::draw_token(backend::connection& holder, take_request const& r) const {
  fencing_token token;
  {
    auto const drawing = r.wait->another_session();
    token = tokens(book_).draw(*drawing, r.name, boot_clock::now() + r.wait->reply_timeout);
  }
  ping(holder, boot_clock::now() + r.wait->reply_timeout);
  return token;
}

// @throws error(errc::row_locked), or access_denied
void row_lock::throw_refused(backend::connection& c, std::string const& name,
                             boot_time_point deadline) const {
  if (book_.returning() && !holder(c, name, deadline)) rows_.refuse_if_hidden(c, name, deadline);
  throw busy(name);
}

void row_lock::make_ready(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  using namespace std::chrono_literals;
  c.expect_row_locks();
  auto const row = rows_.read(c, name, deadline);
  if (row) require_strategy(*row, rowlock::strategy::row_lock);
  if (row && row->holder.expires_in <= -1h) was_used(c, name, deadline);
  if (!row) make_anchor(c, name, deadline);
}

void row_lock::make_anchor(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  c.execute(book_.at("lock_insert_free"), std::vector<value>{name, to_string(rowlock::strategy::row_lock)},
            deadline);
}

given_back row_lock::give_back(backend::connection& c, name_and_term const&, std::chrono::milliseconds,
                               boot_time_point deadline) const {
  end_transaction(c, deadline);
  return {.was_there = true};
}

void row_lock::ping(backend::connection& c, boot_time_point deadline) const {
  require_writable(c, c.execute(book_.at("row_ping"), {}, deadline).rows.at(0).at(0));
}

void row_lock::was_used(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  std::vector<value> const parameters{name};
  if (book_.returning()) {  // row_touch skips a locked row
    c.execute(book_.at("row_touch"), parameters, deadline);
    return;
  }
  in_transaction(c, book_, deadline, [&] {
    if (c.execute(book_.at("row_try"), std::vector<value>{name, std::int64_t{0}}, deadline).rows.empty())
      return false;
    c.execute(book_.at("row_touch"), parameters, deadline);
    return true;
  });
}

// The anchors that no session has locked exclusively.
std::set<std::string> row_lock::free_anchors(backend::connection& c, std::span<std::string const> names,
                                             boot_time_point deadline) const {
  std::set<std::string> found;
  std::vector<value> const parameters{base::json_list(names)};
  for (auto const& columns : c.execute(book_.at("row_free_anchors"), parameters, deadline).rows)
    found.insert(backend::as_text(columns.at(0)));
  return found;
}

// Where the server does not show holders: the anchors that can't be locked. Their times are unknown.
std::vector<row_lock::held> row_lock::locked_anchors(backend::connection& c, name_range const& wanted,
                                                     boot_time_point deadline) const {
  if (wanted.held_longer_than.count() > 0) return {};
  constexpr std::size_t at_a_time =
      50;  // names of 255 bytes fit into 16 KiB, which the server buffers of a reply
  std::vector<std::string> names;
  for (auto const& columns :
       c.execute(book_.at("row_anchors"), std::vector<value>{wanted.from, wanted.to}, deadline).rows)
    names.push_back(backend::as_text(columns.at(0)));
  std::vector<held> found;
  for (std::size_t i = 0; i < names.size(); i += at_a_time) {
    auto const some = std::span(names).subspan(i, std::min(at_a_time, names.size() - i));
    auto const free = free_anchors(c, some, deadline);
    for (auto const& one : some) {
      if (free.contains(one)) continue;
      found.push_back({one, {}});
      found.back().by.strategy = rowlock::strategy::row_lock;
    }
  }
  return found;
}

bool row_lock::only_looked_at(backend::connection& c, std::string const& name,
                              boot_time_point deadline) const {
  return !book_.returning() && free_anchors(c, std::span(&name, 1), deadline).contains(name);
}

std::vector<row_lock::held> row_lock::holders(backend::connection& c, name_range const& wanted,
                                              boot_time_point deadline) const {
  if (!book_.returning()) return locked_anchors(c, wanted, deadline);
  std::vector<held> found;
  std::vector<value> const parameters{wanted.from, wanted.to, wanted.held_longer_than.count()};
  for (auto const& columns : c.execute(book_.at("row_holders"), parameters, deadline).rows) {
    held h;
    h.name = backend::as_text(columns.at(0));
    h.by.strategy = rowlock::strategy::row_lock;
    if (!backend::is_null(columns.at(1))) h.by.owner.host = backend::as_text(columns.at(1));
    if (!backend::is_null(columns.at(2))) h.by.owner.pid = backend::as_int(columns.at(2));
    if (!backend::is_null(columns.at(3))) h.by.acquired_at = backend::as_time(columns.at(3));
    if (!backend::is_null(columns.at(4))) h.by.note = backend::as_text(columns.at(4));
    found.push_back(std::move(h));
  }
  return found;
}

}  // namespace rowlock::strategies

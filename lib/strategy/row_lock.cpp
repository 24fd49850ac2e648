#include "strategy/row_lock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>

#include "strategy/row_strategy.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {

using backend::value;

namespace {

constexpr std::chrono::seconds longest_look{1};

error busy(std::string const& name) {
  return {errc::row_locked, fmt::format("'{}' is held by another session", name)};
}

}  // namespace

row_lock::locked row_lock::take(backend::connection& c, std::string const& name, patience const& p) const {
  std::vector<value> const parameters{name};
  auto const& statement = book_.at(p.wait ? "row_wait" : "row_try");
  // A second round for an anchor that was absent, more for one that is reaped as soon as it is there.
  for (int round = 0; round < 5; ++round) {
    auto const found = c.wait_for_row(statement, parameters, p.deadline, p.reply_timeout, p.stop);
    if (!found.rows.empty()) return {backend::as_int(found.rows.front().at(0)) != 0};
    // Without the transaction: an INSERT could otherwise wait for what this one has locked.
    auto const reply_by = boot_clock::now() + p.reply_timeout;
    give_back(c, reply_by);
    auto const row = rows_.read(c, name, reply_by);
    if (row) require_strategy(*row, rowlock::strategy::row_lock);
    if (row && !p.wait) {
      if (!only_looked_at(c, name, reply_by)) throw_refused(c, name, reply_by);
      auto const soon = std::min<boot_time_point>(reply_by, boot_clock::now() + longest_look);
      auto const late = c.wait_for_row(book_.at("row_wait"), parameters, soon, p.reply_timeout, p.stop);
      if (!late.rows.empty()) return {backend::as_int(late.rows.front().at(0)) != 0};
      give_back(c, reply_by);
    }
    if (!row) make_anchor(c, name, reply_by);
  }
  throw_refused(c, name, boot_clock::now() + p.reply_timeout);
}

// @throws error(errc::row_locked), or what else keeps the row from us
void row_lock::throw_refused(backend::connection& c, std::string const& name,
                             boot_time_point deadline) const {
  if (book_.returning() && holders(c, name, deadline).empty()) rows_.refuse_if_hidden(c, name, deadline);
  throw busy(name);
}

void row_lock::make_ready(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  using namespace std::chrono_literals;
  c.expect_row_locks();
  auto const row = rows_.read(c, name, deadline);
  if (row) require_strategy(*row, rowlock::strategy::row_lock);
  if (row && row->holder.expires_in <= -1h) touch(c, name, deadline);
  if (!row) make_anchor(c, name, deadline);
}

void row_lock::make_anchor(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  c.execute(book_.at("lock_insert_free"), std::vector<value>{name, to_string(rowlock::strategy::row_lock)},
            deadline);
}

void row_lock::give_back(backend::connection& c, boot_time_point deadline) const {
  c.script("ROLLBACK", deadline);
}

void row_lock::ping(backend::connection& c, boot_time_point deadline) const {
  c.execute(book_.at("row_ping"), {}, deadline);
}

void row_lock::touch(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  std::vector<value> const parameters{name};
  if (book_.returning()) {  // one statement can skip a locked row
    c.execute(book_.at("row_touch"), parameters, deadline);
    return;
  }
  in_transaction(c, book_, deadline, [&] {
    if (c.execute(book_.at("row_try"), parameters, deadline).rows.empty()) return false;
    c.execute(book_.at("row_touch"), parameters, deadline);
    return true;
  });
}

// The anchors among `names` that nobody has locked for himself.
std::set<std::string> row_lock::free_anchors(backend::connection& c, std::span<std::string const> names,
                                             boot_time_point deadline) const {
  auto list = nlohmann::json::array();
  for (auto const& name : names) list.push_back(name);
  std::set<std::string> found;
  std::vector<value> const parameters{list.dump()};
  for (auto const& columns : c.execute(book_.at("row_free_anchors"), parameters, deadline).rows)
    found.insert(backend::as_text(columns.at(0)));
  return found;
}

// Where the server does not tell: those that can't be had.
std::vector<row_lock::held> row_lock::locked_anchors(backend::connection& c, std::string const& name,
                                                     boot_time_point deadline) const {
  constexpr std::size_t at_a_time =
      50;  // names of 255 bytes: less than the server keeps back of a reply, 16 KiB
  std::vector<std::string> names;
  for (auto const& columns : c.execute(book_.at("row_anchors"), std::vector<value>{name}, deadline).rows)
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

// A try found the row locked, perhaps by somebody who only looks: then it is had in a moment.
bool row_lock::only_looked_at(backend::connection& c, std::string const& name,
                              boot_time_point deadline) const {
  return !book_.returning() && free_anchors(c, std::span(&name, 1), deadline).contains(name);
}

std::vector<row_lock::held> row_lock::holders(backend::connection& c, std::string const& name,
                                              boot_time_point deadline) const {
  if (!book_.returning()) return locked_anchors(c, name, deadline);
  std::vector<held> found;
  for (auto const& columns : c.execute(book_.at("row_holders"), std::vector<value>{name}, deadline).rows) {
    held h;
    h.name = backend::as_text(columns.at(0));
    h.by.strategy = rowlock::strategy::row_lock;
    if (!backend::is_null(columns.at(1))) h.by.owner.host = backend::as_text(columns.at(1));
    if (!backend::is_null(columns.at(2))) h.by.owner.pid = backend::as_int(columns.at(2));
    if (!backend::is_null(columns.at(3)))
      h.by.acquired_at =
          std::chrono::system_clock::time_point(std::chrono::microseconds(backend::as_int(columns.at(3))));
    if (!backend::is_null(columns.at(4))) h.by.note = backend::as_text(columns.at(4));
    found.push_back(std::move(h));
  }
  return found;
}

}  // namespace rowlock::strategies

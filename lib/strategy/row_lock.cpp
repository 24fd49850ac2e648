#include "strategy/row_lock.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <set>

#include "strategy/row_strategy.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {

using backend::value;

namespace {

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
    if (row && !p.wait) throw busy(name);
    if (!row) make_anchor(c, name, reply_by);
  }
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

// Where the server does not tell: those that can't be had.
std::vector<row_lock::held> row_lock::locked_anchors(backend::connection& c, std::string const& name,
                                                     boot_time_point deadline) const {
  std::vector<value> const parameters{name};
  std::set<std::string> names;
  in_transaction(c, book_, deadline, [&] {
    for (auto const& columns : c.execute(book_.at("row_anchors"), parameters, deadline).rows)
      names.insert(backend::as_text(columns.at(0)));
    if (names.empty()) return false;
    for (auto const& columns : c.execute(book_.at("row_free_anchors"), parameters, deadline).rows)
      names.erase(backend::as_text(columns.at(0)));
    return false;
  });
  std::vector<held> found;
  for (auto const& one : names) {
    found.push_back({one, {}});
    found.back().by.how = rowlock::strategy::row_lock;
  }
  return found;
}

std::vector<row_lock::held> row_lock::holders(backend::connection& c, std::string const& name,
                                              boot_time_point deadline) const {
  if (!book_.returning()) return locked_anchors(c, name, deadline);
  std::vector<held> found;
  for (auto const& columns : c.execute(book_.at("row_holders"), std::vector<value>{name}, deadline).rows) {
    held h;
    h.name = backend::as_text(columns.at(0));
    h.by.how = rowlock::strategy::row_lock;
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

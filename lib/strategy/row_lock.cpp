#include "strategy/row_lock.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "strategy/row_strategy.hpp"

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
    if (!row)
      c.execute(book_.at("lock_insert_free"),
                std::vector<value>{name, to_string(rowlock::strategy::row_lock)}, reply_by);
  }
  throw busy(name);
}

void row_lock::give_back(backend::connection& c, boot_time_point deadline) const {
  c.script("ROLLBACK", deadline);
}

void row_lock::ping(backend::connection& c, boot_time_point deadline) const {
  c.execute(book_.at("row_ping"), {}, deadline);
}

void row_lock::touch(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  c.execute(book_.at("row_touch"), std::vector<value>{name}, deadline);
}

std::vector<row_lock::held> row_lock::holders(backend::connection& c, std::string const& name,
                                              boot_time_point deadline) const {
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

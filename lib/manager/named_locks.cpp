#include "manager/named_locks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <rowlock/error.hpp>

#include "base/event.hpp"
#include "base/hand_on.hpp"
#include "base/random_id.hpp"
#include "base/text.hpp"
#include "manager/listing.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/replace_term.hpp"

namespace rowlock::managing::named_locks {

using namespace std::chrono_literals;
using strategies::name_and_term;

/// The strategy of the lock. Empty if the name certainly has no such term.
static std::optional<rowlock::strategy> strategy_of(engine&, backend::connection&, detached_lock const&);
/// @return false, and keeps the session, if the term is gone
static bool take_away(engine&, strategies::name_and_term const&, rowlock::strategy,
                      std::optional<sessions::connection_pool::loan>& session);

static void add_waiters(engine&, backend::connection&, std::span<lock_info>) noexcept;
static void add_row_locks(engine&, backend::connection&, std::span<lock_info>) noexcept;

namespace {

/// The limit if this process can't open the name again.
constexpr std::chrono::milliseconds closed_at_most = 2s;

std::vector<std::string> held_names(std::span<lock_info const> locks) {
  std::vector<std::string> names;
  for (auto const& lock : locks)
    if (lock.held && (names.empty() || names.back() != lock.name)) names.push_back(lock.name);
  return names;
}

}  // namespace

// After an error the list has no waiters.
void add_waiters(engine& in, backend::connection& session, std::span<lock_info> locks) noexcept try {
  if (!session.has_queues()) return;
  auto const names = held_names(locks);
  if (names.empty()) return;
  auto known = in.tables.locks.waiters(session, names, in.reply_deadline());
  for (auto& lock : locks) {
    auto const found = known.find(lock.name);
    if (!lock.held || found == known.end()) continue;
    lock.waiters = std::move(found->second);
    lock.waiting = static_cast<int>(lock.waiters.size());
    known.erase(found);  // for the first of several permits
  }
} catch (std::exception const&) {
}

// Likewise.
void add_row_locks(engine& in, backend::connection& session, std::span<lock_info> locks) noexcept try {
  auto const names = held_names(locks);
  if (names.empty()) return;
  auto known = in.tables.locks.lockers(session, names, in.reply_deadline());
  for (auto& lock : locks) {
    auto const found = known.find(lock.name);
    if (lock.held && found != known.end()) lock.row_locked_by = known.extract(found).mapped();
  }
} catch (std::exception const&) {
}

std::vector<lock_info> list(engine& in, list_options const& options) {
  constexpr std::size_t asked_at_once = 1000;
  auto loan = in.pool.borrow(in.reply_deadline());
  listing names(in, *loan, options);
  std::vector<lock_info> found;
  std::size_t asked = 0;
  auto const add_sessions = [&] {
    auto const locks = std::span(found).subspan(asked);
    if (options.waiters) add_waiters(in, *loan, locks);
    if (options.row_locks) add_row_locks(in, *loan, locks);
    asked = found.size();
  };
  for (std::size_t count = 0; options.limit == 0 || count < options.limit; ++count) {
    auto of_name = names.next();
    if (of_name.empty()) break;
    std::move(of_name.begin(), of_name.end(), std::back_inserter(found));
    if (found.size() - asked >= asked_at_once) add_sessions();
  }
  add_sessions();
  return found;
}

std::optional<lock_info> find(engine& in, std::string const& name) {
  base::require_name(name);
  auto loan = in.pool.borrow(in.reply_deadline());
  for (auto const& [which, strategy] : in.strategies)
    if (auto by = strategy->holder(*loan, name, in.reply_deadline()))
      return lock_info{name, true, *std::move(by), {}};
  auto row = in.tables.locks.find(*loan, name, in.reply_deadline());
  if (!row) return std::nullopt;
  if (traits(row->holder.strategy).counted)
    if (auto permit = in.tables.permits.find(*loan, name, in.reply_deadline())) row = std::move(permit);
  return as_info(*std::move(row));
}

// Revokes the term that was read, and no term or record that came later.
bool revoke(engine& in, std::string const& name, revoke_mode mode, term_id const& only) {
  base::require_name(name);
  std::optional loan = in.pool.borrow(in.reply_deadline());
  std::optional<bool> was_done;
  return sessions::retry_deadlocks(in.events, name, in.reply_deadline(), [&] {
    // Reads first: on some databases an UPDATE waits for a row before it checks its condition.
    auto const row = in.tables.locks.read(**loan, name, in.reply_deadline());
    if (!row) return false;
    auto const how = row->holder.strategy;
    if (!traits(how).revocable)
      throw error(
          errc::unsupported,
          fmt::format("'{}' is used with {}, which can't be revoked: it ends with the database session that "
                      "holds it, which `rowlock list` names where the server tells, and the server can end",
                      name, to_string(how)));
    auto const& rows = in.tables.of(how);
    if (traits(how).counted) return rows.revoke(**loan, {name, only}, mode, in.reply_deadline());
    name_and_term const held{name, row->term};
    if (held.term.empty() || (!only.empty() && held.term != only)) return false;
    if (!was_done) was_done = row->holder.done;
    if (row->holder.done && !*was_done) return false;  // its work was done just now
    bool const done = row->holder.done                 // a record has no holder
                          ? in.strategies.of(how).give_back(**loan, held, 0ms, in.reply_deadline()).was_there
                          : mode == revoke_mode::now && !traits(how).by_majority
                                ? take_away(in, held, how, loan)
                                : rows.revoke(**loan, held, mode, in.reply_deadline());
    if (!done && only.empty())
      throw error(errc::conflict, fmt::format("'{}' went to another term while it was revoked", name));
    return done;
  });
}

// The name stays closed until no successor can get the ended term (lib/doc/hand_on.md).
bool take_away(engine& in, name_and_term const& held, rowlock::strategy how,
               std::optional<sessions::connection_pool::loan>& session) {
  name_and_term const closed{held.name, {base::random_id()}};
  if (!strategies::replace_term(**session, in.database.statements(), held, closed.term, closed_at_most,
                                in.reply_deadline()))
    return false;
  session.reset();
  auto const since = boot_clock::now();
  base::event const never;
  base::wait_for(never, since + base::closed_for);
  try {
    auto const deadline = in.reply_deadline();
    auto again = in.pool.borrow(deadline);
    in.strategies.of(how).give_back(*again, closed, 0ms, deadline);
  } catch (std::exception const& e) {  // then the term expires
    in.events.report({.kind = event_kind::error, .name = held.name, .message = e.what()});
    in.renewals.give_back_later(held.name, closed.term, how, 0ms, since + closed_at_most);
  }
  return true;
}

std::optional<rowlock::strategy> strategy_of(engine& in, backend::connection& session,
                                             detached_lock const& lock) {
  if (lock.strategy) return lock.strategy;
  auto const row = in.tables.locks.read(session, lock.name, in.reply_deadline());
  if (!row) return std::nullopt;
  auto const how = row->holder.strategy;
  return traits(how).counted || row->term == lock.term ? std::optional(how) : std::nullopt;
}

bool release(engine& in, detached_lock const& lock) {
  base::require_name(lock.name);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  return sessions::retry_deadlocks(in.events, lock.name, deadline, [&] {
    auto const how = strategy_of(in, *loan, lock);
    return how && in.strategies.of(*how).give_back(*loan, {lock.name, lock.term}, 0ms, deadline).was_there;
  });
}

bool renew(engine& in, detached_lock const& lock) {
  base::require_name(lock.name);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  strategies::name_and_term const which{lock.name, lock.term};
  return sessions::retry_deadlocks(in.events, lock.name, deadline, [&] {
    auto const how = strategy_of(in, *loan, lock);
    if (!how) return false;
    auto const& rows = in.tables.of(*how);
    if (!rows.renew(*loan, std::span(&which, 1), deadline, true).empty()) return true;
    if (auto const left = rows.check(*loan, which, deadline);
        left && !left->revoked && !left->hard_limit_reached)
      throw error(errc::row_locked,
                  fmt::format("'{}' could not be renewed: a transaction has its row locked", lock.name));
    return false;
  });
}

}  // namespace rowlock::managing::named_locks

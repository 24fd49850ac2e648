#include "manager/named_locks.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

// Of those whose rows do not tell.
std::unordered_map<std::string, holder_info> named_locks::held_by_sessions(backend::connection& session,
                                                                           std::string const& name) {
  std::unordered_map<std::string, holder_info> found;
  for (auto const& [which, strategy] : engine_.strategies)
    for (auto& held : strategy->holders(session, name, engine_.reply_deadline()))
      found.emplace(std::move(held.name), std::move(held.by));
  return found;
}

// Who may not see it, or is in a hurry, sees the locks all the same.
void named_locks::add_waiters(backend::connection& session, std::vector<lock_info>& locks) noexcept try {
  if (!session.has_gates()) return;
  auto known = engine_.rows.waiters(session, engine_.reply_deadline());
  for (auto& lock : locks) {
    auto const found = known.find(lock.name);
    if (!lock.held || found == known.end()) continue;
    lock.waiters = std::move(found->second);
    lock.waiting = static_cast<int>(lock.waiters.size());
  }
} catch (std::exception const&) {
}

std::vector<lock_info> named_locks::list(bool idle_too) {
  auto loan = engine_.pool.borrow(engine_.reply_deadline());
  std::vector<lock_info> found;
  auto by_sessions = held_by_sessions(*loan, "");
  for (auto& row : engine_.rows.list(*loan, idle_too || !by_sessions.empty(), engine_.reply_deadline())) {
    if (auto const held = by_sessions.find(row.name); held != by_sessions.end())
      found.push_back({std::move(row.name), true, std::move(held->second), {}});
    else if (idle_too || !row.term.empty())
      found.push_back(
          {std::move(row.name), !row.term.empty(), std::move(row.holder), std::move(row.unreadable)});
  }
  add_waiters(*loan, found);
  return found;
}

std::optional<lock_info> named_locks::find(std::string const& name) {
  base::require_name(name);
  auto loan = engine_.pool.borrow(engine_.reply_deadline());
  for (auto& [held, by] : held_by_sessions(*loan, name)) return lock_info{name, true, std::move(by), {}};
  auto row = engine_.rows.find(*loan, name, engine_.reply_deadline());
  if (!row) return std::nullopt;
  return lock_info{name, !row->term.empty(), std::move(row->holder), std::move(row->unreadable)};
}

bool named_locks::revoke(std::string const& name, revoke_mode mode) {
  base::require_name(name);
  auto loan = engine_.pool.borrow(engine_.reply_deadline());
  // Looked at first: where an UPDATE waits for the row before it looks at it, it would wait for the holder.
  auto const row = engine_.rows.read(*loan, name, engine_.reply_deadline());
  if (row && !traits(row->holder.strategy).revocable)
    throw error(
        errc::unsupported,
        fmt::format("'{}' is used with {}, which can't be revoked: it ends with the database session that "
                    "holds it, which `rowlock list` names where the server tells, and the server can end",
                    name, to_string(row->holder.strategy)));
  return sessions::retry_deadlocks(engine_.events, name, engine_.reply_deadline(), [&] {
    return engine_.rows.revoke(*loan, name, mode, engine_.reply_deadline());
  });
}

bool named_locks::release(detached_lock const& lock) {
  base::require_name(lock.name);
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  return sessions::retry_deadlocks(engine_.events, lock.name, deadline, [&] {
    auto how = lock.strategy;
    if (!how) {
      auto const row = engine_.rows.read(*loan, lock.name, deadline);
      if (!row || row->term != lock.term) return false;
      how = row->holder.strategy;
    }
    return engine_.strategies.of(*how).give_back(*loan, {lock.name, lock.term}, 0ms, deadline).was_there;
  });
}

bool named_locks::renew(detached_lock const& lock) {
  base::require_name(lock.name);
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  strategies::name_and_term const which{lock.name, lock.term};
  return sessions::retry_deadlocks(engine_.events, lock.name, deadline, [&] {
    if (!engine_.rows.renew(*loan, std::span(&which, 1), deadline).empty()) return true;
    for (auto const& left : engine_.rows.check(*loan, std::span(&which, 1), deadline))
      if (!left.revoked && !left.hard_limit_reached)
        throw error(errc::row_locked,
                    fmt::format("'{}' could not be renewed: a transaction has its row locked", lock.name));
    return false;
  });
}

}  // namespace rowlock::managing

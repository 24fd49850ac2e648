#pragma once
// What is done with locks by their names and terms, whoever holds them.

#include <optional>
#include <rowlock/options.hpp>
#include <rowlock/types.hpp>
#include <span>
#include <string>
#include <vector>

#include "manager/engine.hpp"

namespace rowlock::managing {

/// Made for one call; thread-safe. Everything throws error.
class named_locks {
 public:
  explicit named_locks(engine& e) noexcept : engine_(e) {}

  std::vector<lock_info> list(list_options const&);
  std::optional<lock_info> find(std::string const& name);
  bool revoke(std::string const& name, revoke_mode, term_id const& only);
  bool release(detached_lock const&);
  bool renew(detached_lock const&);

 private:
  /// By which its term is found; empty if the name certainly has no such term.
  std::optional<rowlock::strategy> strategy_of(backend::connection&, detached_lock const&);

  /// @return false, with the session, if the term is not there any more
  bool take_away(strategies::name_and_term const&, rowlock::strategy,
                 std::optional<sessions::connection_pool::loan>& session);

  /// To those of which the database tells it.
  void add_waiters(backend::connection&, std::span<lock_info>) noexcept;

  engine& engine_;
};

}  // namespace rowlock::managing

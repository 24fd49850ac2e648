#pragma once
// A probe at which statements are counted, delayed and cut off.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <rowlock/connection_source.hpp>
#include <rowlock/error.hpp>
#include <span>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::test {

/// A function that may be called and replaced by several threads at once, also from within itself. A keeper
/// may call it until its manager ends: what it captures by reference is declared before the manager.
template <class... Arguments>
class slot {
 public:
  using function = std::function<void(Arguments...)>;

  slot& operator=(function f) {
    auto fresh = f ? std::make_shared<function const>(std::move(f)) : nullptr;
    std::lock_guard const guard(mutex_);
    current_.swap(fresh);
    return *this;
  }
  void operator()(Arguments... arguments) const {
    auto const mine = [this] {
      std::lock_guard const guard(mutex_);
      return current_;
    }();
    if (mine) (*mine)(arguments...);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<function const> current_;
};

/// Counts what is executed, and may do something before or after it; thread-safe. A case that names lock_take
/// means whatever takes the lock in its strategy, and so for the others: see step() in statement_probe.cpp.
/// What is executed in a transaction has its reply, as far as anybody outside can tell, when it is committed:
/// "begin" and "commit" are counted, too.
struct statement_probe {
  void count(std::string const& statement);
  int executed(std::string const& statement) const;
  int executed_in_all() const;
  void reset();

  /// Sees what is about to be sent.
  slot<std::string const&, std::span<backend::value const>> look;
  slot<std::string const&> before;  ///< what it throws comes instead of the statement
  slot<std::string const&> after;   ///< what it throws comes instead of the reply: the statement was applied
  slot<std::string const&, backend::result&> reply;  ///< may change it; not in a transaction
  std::atomic<int> connections{0};

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
};

/// The source with the probe in between.
connection_source observed_by(connection_source, std::shared_ptr<statement_probe>);

/// What a session at the probe throws in place of a reply.
[[noreturn]] inline void lose_reply() { throw error(errc::in_doubt, "the reply was lost by the test"); }

}  // namespace rowlock::test

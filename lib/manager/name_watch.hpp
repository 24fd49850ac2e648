#pragma once
// One statement for all names for which calls of the dispatcher rest without a place in a wait queue. A call
// by itself would make an attempt for its name again and again. That is exact, but too dear for 1,000 names:
// a look at 1,000 names costs the server about as much as 20 attempts.
//
// The watch is a hint, and decides nothing. The call whose name might be free makes an attempt, which
// decides.
//
//   what the watch sees in a name's row               the call's rest
//   gone, free, expired, a record, unreadable         ends
//   held by the call's own explicit owner             ends
//   another term or renewals, of a term that can be   ends: only an attempt begins another observation
//   taken over by silence
//   another term                                      ends, but not before the end of a rest without a watch:
//                                                     a name that goes from hand to hand needs attempts
//   the same, or renewals                             goes on
//
// - A look tells of a state, not of an event. So a release between a look and the registration of a call
//   shows in the next look.
// - Pace: 100 times as long as the last look took, from 100 ms to 2 s. That is about 1 % of a core, of client
// and
//   server together.
// - A call that gets no hint tries by itself, at least every few seconds, and more rarely among many: all
//   together make 10 attempts in a second.
// - While the looks fail, or an answer does not come for a second, the calls rest as without a watch.
//
// Only the dispatcher's thread uses a name_watch. A worker has the name_look while it asks.

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manager/engine.hpp"
#include "manager/steps.hpp"

namespace rowlock::managing {

class async_call;

/// One statement on its way.
struct name_look {
  /// Does not throw. Asks the database, and sets `done` last.
  void ask(engine&) noexcept;

  std::vector<strategies::name_and_term> names;  ///< sorted, each once; without terms
  std::vector<std::optional<strategies::term_row>> rows;
  bool failed = false;
  std::chrono::nanoseconds took{0};
  std::atomic<bool> done = false;
};

class name_watch {
 public:
  using clock = std::chrono::steady_clock;
  struct entry {
    async_call* call;
    term_id term;
    std::int64_t renewals;
    owner_id const* owner;    ///< null unless explicit
    clock::time_point until;  ///< of the rest without a watch
  };
  using entries = std::multimap<std::string_view, entry>;

  /// The call rests until the returned time, or until a look ends its rest. The call removes its entry before
  /// it ends. `until`: the end of the rest without a watch.
  struct registration {
    entries::iterator entry;
    clock::time_point until;
  };
  registration add(async_call&, watchable const&, clock::time_point until);
  void remove(entries::iterator e) noexcept { all_.erase(e); }

  /// If a look is due. The caller has a worker ask it.
  std::shared_ptr<name_look> next_look(clock::time_point now);
  /// If it can't be asked.
  void drop_look() noexcept {
    look_.reset();
    next_at_ = clock::now() + std::chrono::seconds(1);
  }
  /// Calls it at this time, or when a look is done.
  clock::time_point due() const noexcept;

  struct findings {
    std::vector<async_call*> may_try{};  ///< their rests end
    bool stopped_working = false;        ///< all calls rest as without a watch from now on
  };
  findings findings_of_look(clock::time_point now);
  entries const& all() const noexcept { return all_; }

 private:
  static bool may_be_had(entry const&, std::optional<strategies::term_row> const&, clock::time_point now);
  clock::duration own_pace() const;

  entries all_;
  std::string from_;  ///< where the next look begins
  std::shared_ptr<name_look> look_;
  clock::time_point sent_at_{};
  clock::time_point next_at_{};
  bool works_ = true;
};

}  // namespace rowlock::managing

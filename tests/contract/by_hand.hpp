#pragma once
// Calls that are driven by hand, several by one thread: whatever waits, waits in its driver.

#include "contract/fixture.hpp"
#include "manager/lock_call.hpp"
#include "manager/manager.hpp"

namespace rowlock::test {

using managing::lock_call;

struct counted_bell final : waiting::bell {
  void ring() noexcept override { ++rung; }
  std::atomic<int> rung = 0;
};

/// A manager's inside, without the threads that lock_manager's callers bring.
struct inside {
  explicit inside(fixture& f, mutex_options o)
      : m(managing::manager::make(observed_by(f.source, f.probe).implementation(), f.options)),
        spec(m->spec("x", std::move(o), false)) {}
  ~inside() { m->close(); }
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;

  std::shared_ptr<managing::manager> m;
  managing::lock_spec spec;
};

/// Of a call for one name; null if it has none.
inline std::shared_ptr<holding::hold> only(managing::taken const& t) {
  return t.won.empty() ? nullptr : t.won.front();
}

struct call {
  explicit call(inside& where, managing::wait_policy p = {})
      : it(where.m->parts(), std::span(&where.spec, 1), p, stop.get_token(), bell) {}
  /// Until it has to pause, or has come to its end.
  lock_call::need go() {
    for (;;) {
      auto what = it.next();
      if (!std::holds_alternative<managing::question>(what)) return what;
      it.ask();
    }
  }
  std::shared_ptr<holding::hold> won() {
    auto what = go();
    REQUIRE(std::holds_alternative<managing::taken>(what));
    return only(std::get<managing::taken>(what));
  }
  /// Through all pauses.
  std::shared_ptr<holding::hold> wins_in_the_end() {
    std::shared_ptr<holding::hold> won;
    REQUIRE(eventually([&] {
      auto what = go();
      if (auto* const done = std::get_if<managing::taken>(&what)) won = only(*done);
      return won != nullptr;
    }));
    return won;
  }
  bool pauses() { return std::holds_alternative<managing::pause>(go()); }

  std::stop_source stop;
  counted_bell bell;
  lock_call it;
};

}  // namespace rowlock::test

#pragma once
#include <memory>
#include <optional>
#include <rowlock/error.hpp>

#include "manager/doubtful_takes.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/steps.hpp"
#include "waiting/local_queue.hpp"

namespace rowlock::managing {

/// Exchanges a held permit for another one: a reader's for a writer's, or the reverse. One call: see
/// lock_call.
class exchanging {
 public:
  using held = std::shared_ptr<holding::hold>;

  exchanging(engine&, held const&, permit_spec const&);
  exchanging(exchanging const&) = delete;
  exchanging& operator=(exchanging const&) = delete;

  /// The result: null if refused. @throws error
  steps<held>::need next() { return run_.next(false); }
  void ask();

 private:
  using facts = std::optional<holding::grant_facts>;  ///< empty: refused

  steps<held> run();
  std::optional<waiting::local_queue::turn> place() const;
  void exchange();
  facts take();
  facts attempt(backend::connection&, strategies::take_request&, holding::grant_facts const& asked,
                doubtful_takes&);
  facts granted(backend::connection&, holding::grant_facts asked, fencing_token, doubtful_takes&);
  void lose() noexcept;
  void end() noexcept;

  engine& engine_;
  held const& former_;
  permit_spec const wanted_;
  std::optional<waiting::local_queue::turn> turn_;
  bool granted_ = false;
  held now_;
  std::optional<error> failure_;
  steps<held> run_;  ///< last: it uses the others
};

}  // namespace rowlock::managing

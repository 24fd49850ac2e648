#pragma once
// How a permit that is held becomes another one: a reader a writer, or a writer a reader.

#include <memory>
#include <optional>
#include <rowlock/error.hpp>

#include "manager/doubtful_takes.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/steps.hpp"
#include "waiting/local_queue.hpp"

namespace rowlock::managing {

/// Made for one call: see lock_call.
class exchanging {
 public:
  using held = std::shared_ptr<holding::hold>;

  /// See manager::exchange(). What is held outlives it.
  exchanging(engine&, held const&, permit_spec const&);
  exchanging(exchanging const&) = delete;
  exchanging& operator=(exchanging const&) = delete;

  /// Its result is null if it was refused. @throws error
  steps<held>::need next() { return run_.next(false); }
  void ask();

 private:
  using facts = std::optional<holding::grant_facts>;  ///< of the new one; nothing if it was refused

  steps<held> run();
  std::optional<waiting::local_queue::turn> place() const;
  void exchange();
  facts take();
  facts attempt(backend::connection&, strategies::take_request&, holding::grant_facts const& asked,
                doubtful_takes&);
  facts granted(backend::connection&, holding::grant_facts asked, fencing_token, doubtful_takes&);
  /// Whether the former one is still there can't be told.
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

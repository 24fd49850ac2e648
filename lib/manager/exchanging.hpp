#pragma once
// How a permit that is held becomes another one: a reader a writer, or a writer a reader.

#include <memory>
#include <optional>
#include <rowlock/error.hpp>

#include "manager/doubtful_takes.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing {

/// Made for one call; thread-safe.
class exchanging {
 public:
  explicit exchanging(engine& e) noexcept : engine_(e) {}

  /// See manager::exchange(). @throws error
  std::shared_ptr<holding::hold> exchange(std::shared_ptr<holding::hold> const&, permit_spec const&);

 private:
  using facts = std::optional<holding::grant_facts>;  ///< of the new one; nothing if it was refused
  facts take(std::shared_ptr<holding::hold> const&, permit_spec const&);
  facts attempt(backend::connection&, strategies::take_request&, holding::grant_facts const& asked,
                doubtful_takes&);
  facts granted(backend::connection&, holding::grant_facts asked, fencing_token, doubtful_takes&);
  /// Whether the former one is still there can't be told.
  void lose(std::shared_ptr<holding::hold> const&) noexcept;
  void end(std::shared_ptr<holding::hold> const&) noexcept;

  engine& engine_;
};

}  // namespace rowlock::managing

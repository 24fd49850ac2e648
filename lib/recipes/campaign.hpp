#pragma once
// A campaign without a thread that waits: a coroutine of the library, which goes on on the library's thread
// for continuations. It is always either in an asynchronous call, which the end of the manager completes, or
// in a continuation, for which that end waits.

#include <memory>
#include <optional>
#include <rowlock/election.hpp>
#include <stop_token>

#include "manager/manager.hpp"
#include "recipes/candidacy.hpp"
#include "recipes/leadership_term.hpp"

namespace rowlock::recipes {

/// A won term and its candidate.
class elected_term {
 public:
  elected_term(std::shared_ptr<managing::manager>, std::unique_ptr<only_candidate>, held_lock,
               election_options const&, std::stop_token);
  leadership& as_leader() noexcept { return leader_; }
  std::stop_token token() const noexcept { return term_->token(); }
  /// Has a worker end it: that waits for a health check, and for the database.
  static void end_later(std::unique_ptr<elected_term>) noexcept;

 private:
  std::shared_ptr<managing::manager> const manager_;
  std::unique_ptr<only_candidate> candidate_;
  election_options const options_;
  std::optional<leadership_term> term_;
  leadership leader_;
};

class campaign {
 public:
  using handler = async_handler<std::optional<elected>>;
  /// @throws error(errc::would_deadlock), errc::closed, errc::forked
  static void begin(std::shared_ptr<managing::manager>, mutex&, election_options const&,
                    std::shared_ptr<candidacy>, executor where, std::unique_ptr<handler>, std::stop_token);

 private:
  struct coroutine;
  struct order;
};

}  // namespace rowlock::recipes

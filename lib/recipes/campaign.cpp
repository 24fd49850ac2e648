#include "recipes/campaign.hpp"

#include <coroutine>
#include <exception>
#include <functional>
#include <utility>

namespace rowlock::recipes {

elected_term::elected_term(std::shared_ptr<managing::manager> m, std::unique_ptr<only_candidate> c,
                           held_lock lock, election_options const& o, std::stop_token stop)
    : manager_(std::move(m)),
      candidate_(std::move(c)),
      options_(o),
      term_(std::in_place, std::move(lock), options_, std::move(stop)),
      leader_(*term_) {}

// The next campaign of the object may begin at once: its call waits for this release.
void elected_term::end_later(std::unique_ptr<elected_term> t) noexcept {
  auto const m = t->manager_;
  t->candidate_->term_ends();
  t->candidate_.reset();
  try {
    std::shared_ptr<elected_term> const shared = std::move(t);
    auto const ends = [shared] {
      shared->term_.reset();
      return true;
    };
    m->ask_later<bool>(on_library_thread, async_handler<bool>::of([](std::exception_ptr const&, bool) {}),
                       ends, true);
  } catch (std::exception const&) {  // the manager has ended, or there is no memory or thread: it ends here
  }
}

/// Begins at once, and destroys itself at its end.
struct campaign::coroutine {
  struct promise_type {
    coroutine get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

struct campaign::order {
  std::shared_ptr<managing::manager> manager;
  mutex& name;
  election_options options;
  std::unique_ptr<only_candidate> candidate;
  std::unique_ptr<managing::answer_for<std::optional<elected>>> answer;
  std::stop_token stop;
  executor here{on_library_thread};

  // Not a static function: clang 14 can't compile those as coroutines with -fsanitize=function and -fPIC.
  coroutine run(std::unique_ptr<order>);

  async_result<bool> pause_until(boot_time_point when) {
    return {[this, when](executor where, std::unique_ptr<async_handler<bool>> whom, std::stop_token s) {
              manager->pause_later(when, std::move(s), std::move(where), std::move(whom));
            },
            here, stop};
  }
};

void campaign::begin(std::shared_ptr<managing::manager> m, mutex& name, election_options const& o,
                     std::shared_ptr<candidacy> c, executor where, std::unique_ptr<handler> whom,
                     std::stop_token stop) {
  m->refuse_if_ended();
  auto candidate = std::make_unique<only_candidate>(std::move(c), name.name());
  auto answer =
      std::make_unique<managing::answer_for<std::optional<elected>>>(m, std::move(where), std::move(whom));
  auto made = std::make_unique<order>(
      order{std::move(m), name, o, std::move(candidate), std::move(answer), std::move(stop)});
  auto& it = *made;
  it.run(std::move(made));
}

campaign::coroutine campaign::order::run([[maybe_unused]] std::unique_ptr<order> itself) {
  std::optional<elected> won;
  std::exception_ptr failed;
  try {
    // Also the first step is not the caller's.
    auto begins_at = candidate->begins_at();
    while (co_await pause_until(begins_at)) {
      begins_at = boot_clock::now() + options.health_interval;
      if (!is_healthy(options)) continue;
      auto lock = co_await name.async_acquire(here, stop);
      if (!lock) break;
      begins_at = boot_clock::now() + pause_after_a_term;
      // After days in the queue the candidate might be ill.
      if (!is_healthy(options)) continue;
      won.emplace(elected(
          std::make_unique<elected_term>(manager, std::move(candidate), *std::move(lock), options, stop)));
      break;
    }
  } catch (error const& e) {
    if (e.reason() != errc::closed) failed = std::current_exception();
  } catch (...) {
    failed = std::current_exception();
  }
  candidate.reset();
  answer->bring(std::move(failed), std::move(won));
  manager->asynchronous().post(std::move(answer));
}

}  // namespace rowlock::recipes

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

elected::elected(std::unique_ptr<recipes::elected_term> t) noexcept : term_(std::move(t)) {}
elected::elected(elected&&) noexcept = default;

elected& elected::operator=(elected&& other) noexcept {
  if (this == &other) return *this;
  end();
  term_ = std::move(other.term_);
  return *this;
}

elected::~elected() { end(); }

void elected::end() noexcept {
  if (term_) recipes::elected_term::end_later(std::move(term_));
}

std::stop_token elected::stop_token() const noexcept { return term_->token(); }
leadership& elected::operator*() const noexcept { return term_->as_leader(); }
leadership* elected::operator->() const noexcept { return &term_->as_leader(); }

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

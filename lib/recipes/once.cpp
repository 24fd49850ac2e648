#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <rowlock/once.hpp>
#include <rowlock/transaction.hpp>
#include <utility>

#include "base/text.hpp"
#include "holding/hold.hpp"
#include "manager/manager.hpp"
#include "manager/recording.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

using namespace std::chrono_literals;

once_run::once_run(held_lock lock, std::chrono::milliseconds keep_for, std::stop_token stop)
    : lock_(std::move(lock)),
      keep_for_(keep_for),
      on_loss_(lock_.loss_token(), stop_it{&stop_}),
      on_stop_(std::move(stop), stop_it{&stop_}) {}

void once_run::set_result(std::string text) {
  base::require_text("the result", text, base::longest_note);
  result_ = std::move(text);
}

// After tx.done only that transaction decides whether the work is done, also if trust has ended since.
void once_run::record() {
  if (lock_.hold_->recorded_in_transaction()) {
    if (lock_.manager_->was_recorded(lock_.hold_)) return;
    throw error(
        errc::transaction_ended,
        fmt::format("'{}': the transaction that was to record it as done was not committed: nothing is "
                    "recorded",
                    key()));
  }
  if (lock_.done(keep_for_, result_)) return;
  auto const why = lock_.loss();
  throw error(errc::lock_lost,
              fmt::format("'{}' was lost while its work ran ({}): it is not recorded as done", key(),
                          why ? to_string(*why) : "it was given back"));
}

class once_call {
 public:
  once_call(lock_manager& m, std::string key, once_options const& o) : options_(o) {
    mutex_options how;
    how.strategy = strategy::once;
    how.ttl = o.ttl;
    how.note = o.note;
    mutex_.emplace(m.make_mutex(std::move(key), std::move(how)));
  }

  once_result run(std::chrono::milliseconds keep_for, std::function<void(once_run&)> const& work) {
    auto got =
        options_.wait > 0ms ? mutex_->try_acquire_for(options_.wait, options_.stop) : mutex_->try_acquire();
    if (!got) return not_run(got);
    once_run one(*std::move(got), keep_for, options_.stop);
    work(one);
    one.record();
    return {once_status::ran, {}, one.result()};
  }

 private:
  static once_result not_run(acquisition const& a) {
    auto const& by = a.holder();
    if (a.status() == acquire_status::done) return {once_status::was_done, by, by ? by->note : std::string()};
    if (a.status() == acquire_status::cancelled) return {once_status::cancelled, by};
    return {once_status::runs_elsewhere, by};
  }

  once_options const& options_;
  std::optional<mutex> mutex_;
};

char const* to_string(once_status s) noexcept {
  switch (s) {
    case once_status::ran:
      return "ran";
    case once_status::was_done:
      return "was done";
    case once_status::runs_elsewhere:
      return "runs elsewhere";
    case once_status::cancelled:
      return "cancelled";
  }
  return "?";
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers hand theirs over
once_result run_once(lock_manager& manager, std::string key, std::chrono::milliseconds keep_for,
                     std::function<void(once_run&)> const& work,
                     once_options options) {  // NOLINT(performance-unnecessary-value-param): as the key
  managing::recording::require_keepable(key, keep_for, {});
  return once_call(manager, std::move(key), options).run(keep_for, work);
}

void basic_transaction::done(once_run& run, std::string const& result) {
  if (!result.empty()) run.set_result(result);
  done(run.lock(), run.keep_for(), run.result());
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

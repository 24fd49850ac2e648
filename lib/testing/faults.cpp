#include <list>
#include <mutex>
#include <rowlock/error.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/testing.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "testing/probe.hpp"

namespace rowlock::testing::inline ROWLOCK_ABI_NAMESPACE {
namespace {

std::string_view step_of(statement which) noexcept {
  switch (which) {
    case statement::take:
      return "lock_take";
    case statement::renew:
      return "lock_renew";
    default:
      return "lock_release";
  }
}

}  // namespace

class faults::orders final : public probe {
 public:
  struct order {
    statement which;
    bool is_applied;
    bool cuts = false;
  };

  void give(order o) {
    std::lock_guard const guard(mutex_);
    all_.push_back(o);
  }
  void cut() {
    std::lock_guard const guard(mutex_);
    cut_ = true;
  }
  void mend() {
    std::lock_guard const guard(mutex_);
    cut_ = false;
    all_.clear();
  }

  void connecting() override { before("connect"); }
  void before(std::string const& step) override {
    std::lock_guard const guard(mutex_);
    if (cut_ || done(step, false))
      throw error(errc::unreachable, step + ": rowlock::testing does not send it");
  }
  void after(std::string const& step) override {
    std::lock_guard const guard(mutex_);
    if (done(step, true)) throw error(errc::in_doubt, step + ": rowlock::testing loses the reply");
  }

 private:
  // With the mutex. @return whether it was ordered
  bool done(std::string const& step, bool is_applied) {
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      if (at->is_applied != is_applied || step_of(at->which) != step) continue;
      cut_ = cut_ || at->cuts;
      all_.erase(at);
      return true;
    }
    return false;
  }

  std::mutex mutex_;
  bool cut_ = false;
  std::list<order> all_;
};

faults::faults() : orders_(std::make_shared<orders>()) {}

connection_source faults::between(connection_source const& source) const {
  return observed_by(source, orders_);
}

void faults::cut() { orders_->cut(); }
void faults::mend() { orders_->mend(); }
void faults::refuse(statement which) { orders_->give({which, false}); }
void faults::lose_reply(statement which) { orders_->give({which, true}); }
void faults::lose_reply_and_cut(statement which) { orders_->give({which, true, true}); }

void lose(lock_manager& manager, held_lock& lock) {
  (void)manager.revoke(lock.name(), revoke_mode::now, lock.term());
  if (lock.valid()) (void)lock.extend(std::chrono::milliseconds(1));  // sees the revocation
  // Another thread triggers the token a moment later.
  while (lock.loss() && !lock.loss_token().stop_requested())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace rowlock::testing::inline ROWLOCK_ABI_NAMESPACE

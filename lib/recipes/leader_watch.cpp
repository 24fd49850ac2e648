#include <fmt/format.h>

#include <memory>
#include <rowlock/election.hpp>
#include <rowlock/error.hpp>
#include <utility>

#include "base/thread_name.hpp"
#include "recipes/sleeper.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

using namespace std::chrono_literals;

class told_leader {
 public:
  explicit told_leader(leader_watch::callback changed) : changed_(std::move(changed)) {}

  void tell_if_new(std::optional<leader_info> const& now) {
    if (told_ && same(last_, now)) return;
    told_ = true;
    last_ = now;
    changed_(now);
  }

 private:
  static bool same(std::optional<leader_info> const& a, std::optional<leader_info> const& b) {
    if (!a || !b) return !a && !b;
    return a->token == b->token && a->value == b->value && a->since == b->since;
  }

  leader_watch::callback changed_;
  bool told_ = false;
  std::optional<leader_info> last_;
};

void look_at_leader(lock_manager& manager, std::string const& name, told_leader& told) noexcept try {
  told.tell_if_new(find_leader(manager, name));
} catch (...) {  // no answer, or the callback threw: the watch goes on
}

}  // namespace

std::optional<leader_info> find_leader(lock_manager& manager, std::string const& name) {
  auto const found = manager.find(name);
  if (!found || !found->held || !found->unknown.empty()) return std::nullopt;
  auto const& h = found->holder;
  if (h.expires_in <= 0ms) return std::nullopt;
  return leader_info{h.note, h.owner.host, h.owner.pid, h.acquired_at, h.token};
}

leader_watch::leader_watch(lock_manager& manager, std::string name, callback changed,
                           std::chrono::milliseconds every) {
  if (every < 10ms || every > 1h)
    throw error(errc::invalid_argument,
                fmt::format("asking every {} ms is out of range: 10 ms to 1 h", every.count()));
  if (!changed) throw error(errc::invalid_argument, "a leader_watch needs a function to call");
  thread_ = std::jthread([&manager, name = std::move(name), told = told_leader(std::move(changed)), every,
                          nap = std::make_unique<recipes::sleeper>()](std::stop_token stop) mutable {
    base::name_thread("rowlock-leader");
    do look_at_leader(manager, name, told);
    while (nap->sleep_until(boot_clock::now() + every, stop));
  });
}

leader_watch::~leader_watch() = default;

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

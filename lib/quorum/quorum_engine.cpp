#include "quorum/quorum_engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/calls.hpp"
#include "base/thread_name.hpp"
#include "quorum/count_down.hpp"

namespace rowlock::voting {

using namespace std::chrono_literals;

namespace {

/// Tokens count microseconds since 1970. A member so far ahead of this machine's clock is wrong.
constexpr std::int64_t a_year_us = 366LL * 24 * 3600 * 1'000'000;
/// The retries of a failed renewal, in one ttl.
constexpr int retries_in_ttl = 30;
constexpr std::size_t most_takes = 64;

std::int64_t now_us() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch())
      .count();
}

/// The quorum handles renewal, trust and loss. Each take has an owner of its own, so that none takes over a
/// term that a lost reply left.
mutex_options for_member(mutex_options o) {
  o.strategy = strategy::quorum;
  o.takeover = takeover::observed;
  o.fencing = true;
  o.renew = false;
  o.owner = each_acquire{};
  o.on_trust = nullptr;
  return o;
}

class hook final : public managing::quorum_hook {
 public:
  explicit hook(question const& q) noexcept : question_(q) {}

  strategies::wanted_vote asks(bool in_front) override {
    auto vote = question_.vote;
    if (in_front && question_.in_front != nullptr) vote.token = question_.in_front->asks().value;
    return vote;
  }
  void refused() override {
    if (question_.in_front != nullptr) question_.in_front->refused();
  }
  void came_too_late() override { was_late = true; }
  bool has_others_to_ask() const noexcept override { return question_.has_others_to_ask; }

  bool was_late = false;

 private:
  question const& question_;
};

}  // namespace

quorum_engine::quorum_engine(std::vector<managing::member> members, quorum_options options)
    : options_(std::move(options)), members_(std::move(members)), epoch_(members_) {}

quorum_engine::~quorum_engine() {
  keeper_.request_stop();
  waiter_.wake();
  if (keeper_.joinable()) keeper_.join();
  members_.end();
}

void quorum_engine::refuse_if_forked() const {
  if (forked())
    throw error(
        errc::forked,
        "this quorum is the parent process's: make the lock_managers and the quorum anew after fork()");
}

void quorum_engine::report(event const& e) const noexcept {
  if (!options_.on_event) return;
  try {
    options_.on_event(e);
  } catch (...) {  // dropped, as from a manager's hook
  }
}

// From now on grants of former members do not count.
bool quorum_engine::look_again(std::size_t i, std::string const& epoch_id) {
  auto const now = epoch_.look_again(i, epoch_id);
  if (!now) return false;
  std::lock_guard const guard(mutex_);
  for (auto const& k : kept_) leave_out_others(*k.hold, *now);
  return true;
}

void quorum_engine::leave_out_others(quorum_hold& h, quorum_view const& now) {
  for (std::size_t m = 0; m < now.left_out.size(); ++m)
    if (now.left_out[m]) h.leave_out(m);
}

bool quorum_engine::is_far_ahead(fencing_token token) noexcept { return token.value > now_us() + a_year_us; }

ballot quorum_engine::take(std::size_t i, std::string const& name, mutex_options const& options,
                           question const& q, std::stop_token stop) {
  auto const& m = members_.at(i);
  ballot b;
  hook asks(q);
  try {
    auto came = m.take(name, for_member(options), asks, q.deadline, std::move(stop));
    b.why = came.why;
    b.holder = std::move(came.holder);
    b.granted = std::move(came.granted);
    if (b.granted && is_far_ahead(b.granted.token())) {
      b.granted.forget_at_least();
      (void)m.release(std::exchange(b.granted, {}));
      throw error(
          errc::failed,
          fmt::format("'{}': {} draws tokens that are more than a year ahead of this machine's clock: "
                      "it is left out. `rowlock quorum status` tells more",
                      name, members_.where(i)));
    }
  } catch (error const& e) {
    b.failure = e;
  } catch (std::exception const& e) {
    b.failure = error(errc::failed, e.what());
  }
  // A member that granted too late is not silent: this process might have been stopped meanwhile.
  members_.heard(i, b.failure && !asks.was_late ? &*b.failure : nullptr);
  return b;
}

void quorum_engine::ask_for(std::size_t i, std::shared_ptr<quorum_hold> const& h, std::string const& epoch_id,
                            std::optional<fencing_token> token, quorum_hold::former_grant const& former) {
  if (!h->begin_to_ask(i)) {
    if (former.to_be_given_back) give_back_later(i, former.to_be_given_back);
    return;
  }
  auto options = h->options();
  options.hard_limit = h->left_of_hard_limit();
  strategies::wanted_vote vote{epoch_id, std::nullopt, former.term.value};
  if (token) vote.token = token->value;
  auto const asked = members_.ask(
      i,
      [this, i, h, had = former.to_be_given_back, vote = std::move(vote), options = std::move(options)] {
        ballot b;
        if (had) b.revoked = give_back_former(i, had);
        // The task might have waited behind one without an answer.
        if (!b.revoked && h->is_wanted()) b = take(i, h->name(), options, {vote}, {});
        auto won = b.granted;
        if (h->answered(i, std::move(b)) || !won) return;
        won.forget_at_least();
        (void)members_.at(i).release(won);
      },
      base::task_queue::kind::may_be_dropped, members_.is_suspect(i) ? 1 : most_takes);
  if (!asked && former.to_be_given_back) give_back_later(i, former.to_be_given_back);
  if (!asked)
    h->answered(i,
                {.failure = error(errc::unreachable, fmt::format("{} does not answer", members_.where(i)))});
}

// Without replies to renewals, a revocation can be unseen. The next owner of the row clears its mark.
bool quorum_engine::give_back_former(std::size_t i, managing::granted_vote const& h) {
  bool revoked = false;
  try {
    revoked = members_.at(i).is_revoked(h);
  } catch (std::exception const&) {  // no answer: the next take looks at the mark
  }
  (void)members_.at(i).release(h);
  return revoked;
}

void quorum_engine::confirm(std::size_t i, std::shared_ptr<quorum_hold> const& h, fencing_token token,
                            std::string const& epoch_id, std::chrono::milliseconds lasts) {
  auto const granted = h->of(i);
  if (!granted || !h->begin_to_ask(i)) return;
  auto const asked = members_.ask(
      i,
      [this, i, h, granted, token, epoch_id, lasts] {
        std::optional<error> failure;
        bool confirmed = false;
        try {
          confirmed = members_.at(i).confirm(granted, token, epoch_id, lasts);
        } catch (error const& e) {
          failure = e;
        } catch (std::exception const& e) {
          failure = error(errc::failed, e.what());
        }
        members_.heard(i, failure ? &*failure : nullptr);
        bool goes_on = false;
        if (failure && failure->reason() == errc::not_voting) {
          try {
            goes_on = look_again(i, epoch_id);
          } catch (std::exception const&) {  // the next renewal asks again
          }
        }
        h->confirmed(i, confirmed, token, failure);
        if (goes_on) confirm(i, h, token, epoch_.known()->record.epoch_id, lasts);
        waiter_.wake();
      },
      base::task_queue::kind::may_be_dropped);
  if (!asked)
    h->confirmed(i, false, token,
                 error(errc::unreachable, fmt::format("{} does not answer", members_.where(i))));
}

void quorum_engine::give_back_later(std::size_t i, managing::granted_vote const& h) noexcept try {
  members_.ask(
      i, [this, i, h] { (void)members_.at(i).release(h); }, base::task_queue::kind::must_be_run);
} catch (std::exception const&) {  // no thread. The manager's end releases it, or it expires
}

int quorum_engine::give_back(std::vector<managing::granted_vote> granted, std::size_t last) noexcept try {
  auto const until = boot_clock::now() + members_.at(last).release_timeout();
  struct outcome {
    explicit outcome(std::size_t n) : others(n) {}
    count_down others;
    std::atomic<int> gone{0};
  };
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < granted.size(); ++i)
    if (granted[i] && i != last) others.push_back(i);
  auto const came = std::make_shared<outcome>(others.size());
  for (auto const i : others) {
    auto const gives = [this, i, h = granted[i], came] {
      if (members_.at(i).release(h) == release_result::released) ++came->gone;
      came->others.one_less();
    };
    if (!members_.ask(i, gives, base::task_queue::kind::must_be_run)) gives();
  }
  // A waiter at `last` asks the other members at the same time, or right after its grant.
  bool const waited_for = granted[last] && members_.at(last).is_waited_for(granted[last]);
  auto const wait = [&] {
    if (!others.empty()) came->others.wait_until(until);
  };
  if (waited_for) wait();
  int const here =
      granted[last] && members_.at(last).release(granted[last]) == release_result::released ? 1 : 0;
  if (!waited_for) wait();
  return here + came->gone.load();
} catch (std::exception const&) {  // no thread or memory: they expire
  return 0;
}

void quorum_engine::keep(std::shared_ptr<quorum_hold> const& h) {
  auto const first = boot_clock::now() + std::chrono::nanoseconds(h->options().ttl) / 3;
  std::lock_guard const guard(mutex_);
  if (!keeper_.joinable()) keeper_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  // A member without a grant, or with a late one, is asked soon.
  std::vector<boot_time_point> next(members_.size(), first);
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (!h->of(i)) next[i] = boot_clock::now() + std::chrono::nanoseconds(h->options().ttl) / retries_in_ttl;
  kept_.push_back({h, std::move(next)});
  // An epoch that was found during the take left members out only in the locks of kept_.
  leave_out_others(*h, *epoch_.known());
  waiter_.wake();
}

void quorum_engine::forget(quorum_hold const& h) noexcept {
  std::lock_guard const guard(mutex_);
  std::erase_if(kept_, [&](kept const& k) { return k.hold.get() == &h; });
}

bool quorum_engine::held_by_this_thread(std::string const& name) const {
  std::lock_guard const guard(mutex_);
  return std::any_of(kept_.begin(), kept_.end(), [&](kept const& k) {
    return k.by == std::this_thread::get_id() && k.hold->name() == name && k.hold->valid();
  });
}

void quorum_engine::run(std::stop_token stop) {
  base::name_thread("rowlock-quorum");
  base::serving const here;
  std::stop_callback const at_stop(stop, [this] { waiter_.wake(); });
  while (!stop.stop_requested()) waiter_.wait_until(look_in_any_case());
}

// Without memory it looks again soon. Meanwhile trust ends by the clock.
boot_time_point quorum_engine::look_in_any_case() noexcept {
  try {
    return look();
  } catch (std::exception const&) {
    return boot_clock::now() + 100ms;
  }
}

boot_time_point quorum_engine::look() {
  auto next = boot_time_point::max();
  std::vector<std::shared_ptr<quorum_hold>> lost;
  {
    std::lock_guard const guard(mutex_);
    lost.reserve(kept_.size());
    auto const now = boot_clock::now();
    auto const v = epoch_.known();  // not null if kept_ is not empty
    for (auto k = kept_.begin(); k != kept_.end();) {
      auto const what = k->hold->look_what_is_due();
      if (what == quorum_hold::due::renewal) {
        next = std::min({next, renew(*k, *v, now), k->hold->alarm()});
        ++k;
        continue;
      }
      if (what == quorum_hold::due::announcement) lost.push_back(k->hold);
      k = kept_.erase(k);
    }
  }
  for (auto const& h : lost) tell_loss(*h);
  return next;
}

void quorum_engine::tell_loss(quorum_hold& h) const noexcept {
  auto const why = h.loss();
  report({.kind = event_kind::lost,
          .name = h.name(),
          .token = h.token(),
          .loss = why,
          .message = why ? to_string(*why) : "",
          .label = h.options().label});
  tell_ended(h);
  h.announce_loss();
}

void quorum_engine::tell_ended(quorum_hold const& h) const noexcept {
  report({.kind = event_kind::ended, .name = h.name(), .token = h.token(), .label = h.options().label});
}

// A member that has the lock renews it. Any other member is asked for a new term, which counts only if the
// member knows the token. A member where an operator revoked the lock is not asked.
boot_time_point quorum_engine::renew(kept& k, quorum_view const& v, boot_time_point now) {
  auto const ttl = std::chrono::nanoseconds(k.hold->options().ttl);
  auto next = boot_time_point::max();
  leave_out_others(*k.hold, v);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (v.left_out[i]) continue;
    if (now >= k.next[i]) {
      auto const granted = k.hold->of(i);
      bool const has_it = granted && granted.valid();
      if (has_it && k.hold->options().renew)
        confirm(i, k.hold, k.hold->token(), v.record.epoch_id, k.hold->options().ttl);
      if (!has_it && k.hold->options().renew)
        if (auto const former = k.hold->may_ask_again(i))
          ask_for(i, k.hold, v.record.epoch_id, k.hold->token(), *former);
      bool const waits = has_it && !members_.is_suspect(i);
      k.next[i] = now + (waits ? ttl / 3 : std::max<std::chrono::nanoseconds>(ttl / retries_in_ttl, 20ms));
    }
    next = std::min(next, k.next[i]);
  }
  return next;
}

}  // namespace rowlock::voting

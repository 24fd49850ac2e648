#include "recipes/quorum_crew.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/calls.hpp"
#include "manager/voting.hpp"

namespace rowlock::recipes {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_questions = 64;
/// Tokens count microseconds since 1970: a member that is so far ahead of this machine's clock has not drawn
/// them.
constexpr std::int64_t a_year_us = 366LL * 24 * 3600 * 1'000'000;
/// A renewal that failed is tried again after so many parts of the ttl.
constexpr int retries_in_ttl = 30;

bool means_silence(error const& e) noexcept {
  switch (e.reason()) {
    case errc::row_locked:
    case errc::conflict:
    case errc::not_voting:
    case errc::strategy_mismatch:
    case errc::invalid_argument:
      return false;
    default:
      return true;
  }
}

std::int64_t now_us() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch())
      .count();
}

/// Renewal, trust and loss are the quorum's business. Without an owner that is known again, so that what a
/// lost reply has left is not taken for somebody's who asks twice.
mutex_options for_member(mutex_options o) {
  o.strategy = strategy::quorum;
  o.takeover = takeover::observed;
  o.fencing = true;
  o.renew = false;
  o.owner = each_acquire{};
  o.on_trust = nullptr;
  return o;
}

/// For those who wait for several answers.
class count_down {
 public:
  explicit count_down(std::size_t n) : left_(n) {}
  void one_less() {
    std::lock_guard const guard(mutex_);
    if (--left_ == 0) none_.notify_all();
  }
  bool wait_until(boot_time_point until) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, until - boot_clock::now(), [this] { return left_ == 0; });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::size_t left_;
};

}  // namespace

quorum_crew::quorum_crew(std::vector<manager_ptr> members, quorum_options options)
    : options_(std::move(options)) {
  for (auto& m : members) {
    reply_timeout_ = std::max(reply_timeout_, m->parts().options.reply_timeout);
    members_.push_back(std::make_unique<seat>(std::move(m)));
  }
}

quorum_crew::~quorum_crew() {
  keeper_.request_stop();
  waiter_.wake();
  if (keeper_.joinable()) keeper_.join();
  members_.clear();
}

std::string const& quorum_crew::where(std::size_t i) const { return at(i).parts().database.describe(); }

bool quorum_crew::is_suspect(std::size_t i) const noexcept { return members_[i]->suspect.load(); }

void quorum_crew::heard(std::size_t i, error const* failure) noexcept {
  members_[i]->suspect = failure != nullptr && means_silence(*failure);
}

void quorum_crew::tell(event const& e) const noexcept {
  if (!options_.on_event) return;
  try {
    options_.on_event(e);
  } catch (...) {  // as a manager's hook
  }
}

void quorum_crew::ask_all(std::function<void(std::size_t)> const& question) {
  count_down all(size());
  for (std::size_t i = 0; i < size(); ++i)
    members_[i]->asked.run(
        [&, i] {
          question(i);
          all.one_less();
        },
        errands::kind::must_be_run);
  all.wait();
}

std::shared_ptr<quorum_view const> quorum_crew::view() {
  {
    std::lock_guard const guard(mutex_);
    if (view_) return view_;
  }
  auto fresh = learn();
  std::lock_guard const guard(mutex_);
  if (!view_ || fresh->record.epoch > view_->record.epoch) view_ = std::move(fresh);
  return view_;
}

// Those who answer late are not waited for once a majority has answered: they are asked again when they vote.
std::shared_ptr<quorum_view const> quorum_crew::learn() {
  struct answers {
    std::mutex mutex;
    std::condition_variable come;
    std::vector<std::optional<strategies::member_state>> states;
    std::optional<error> trouble;
    std::size_t left = 0;
    std::size_t good = 0;
  };
  auto const got = std::make_shared<answers>();
  got->states.resize(size());
  got->left = size();
  for (std::size_t i = 0; i < size(); ++i)
    members_[i]->asked.run(
        [this, i, got] {
          std::optional<strategies::member_state> state;
          std::optional<error> failure;
          try {
            state = managing::voting(at(i).parts()).read(false);
          } catch (error const& e) {
            failure = e;
          } catch (std::exception const& e) {
            failure = error(errc::failed, e.what());
          }
          heard(i, failure ? &*failure : nullptr);
          std::lock_guard const guard(got->mutex);
          if (state) ++got->good;
          got->states[i] = std::move(state);
          if (failure) got->trouble = std::move(failure);
          --got->left;
          got->come.notify_all();
        },
        errands::kind::must_be_run);
  std::unique_lock lock(got->mutex);
  got->come.wait(lock, [&] { return got->left == 0 || got->good > size() / 2; });
  if (got->left > 0) got->come.wait_for(lock, 100ms, [&] { return got->left == 0; });
  return view_of(got->states, got->trouble);
}

std::shared_ptr<quorum_view const> quorum_crew::view_of(
    std::vector<std::optional<strategies::member_state>> const& states,
    std::optional<error> const& trouble) const {
  strategies::member_state const* newest = nullptr;
  std::size_t answered = 0;
  for (auto const& s : states) {
    if (!s) continue;
    ++answered;
    if (s->record.quorum_id.empty()) continue;
    if (newest != nullptr && newest->record.quorum_id != s->record.quorum_id)
      throw error(errc::not_voting,
                  "these databases are members of different quorums: `rowlock quorum status` tells");
    if (newest == nullptr || s->record.epoch > newest->record.epoch) newest = &*s;
  }
  if (newest == nullptr) {
    if (answered <= size() / 2 && trouble) throw error(*trouble);
    throw error(errc::not_voting, "these databases are no quorum: `rowlock quorum init` makes one of them");
  }
  auto seen = std::make_shared<quorum_view>();
  seen->record = newest->record;
  auto const& ids = seen->record.members;
  if (ids.size() != size())
    throw error(errc::not_voting,
                fmt::format("these are {} databases, and their quorum has {} members", size(), ids.size()));
  std::size_t ours = 0;
  for (auto const& s : states) {
    bool const out = s && std::find(ids.begin(), ids.end(), s->database_id) == ids.end();
    seen->left_out.push_back(out);
    if (!out) ++ours;
  }
  if (ours < seen->majority())
    throw error(
        errc::not_voting,
        fmt::format("only {} of these databases are among the {} members of their quorum: the list is "
                    "another one",
                    ours, ids.size()));
  return seen;
}

bool quorum_crew::look_again(std::size_t i, std::string const& epoch_id) {
  {
    std::lock_guard const guard(mutex_);
    if (view_ && view_->record.epoch_id != epoch_id) return true;
  }
  auto const state = managing::voting(at(i).parts()).read(false);
  auto const& its = state.record;
  std::lock_guard const guard(mutex_);
  if (!view_ || its.quorum_id != view_->record.quorum_id || its.epoch <= view_->record.epoch) return false;
  // One that joins has this epoch, but does not vote yet.
  auto fresh = std::make_shared<quorum_view>(*view_);
  fresh->record = its;
  if (its.members.size() != size()) return false;
  for (std::size_t m = 0; m < size(); ++m) {
    auto const id = m == i ? state.database_id : at(m).parts().database.id();
    fresh->left_out[m] =
        !id.empty() && std::find(its.members.begin(), its.members.end(), id) == its.members.end();
  }
  view_ = fresh;
  for (auto const& k : kept_)
    for (std::size_t m = 0; m < size(); ++m)
      if (fresh->left_out[m]) k.hold->leave_out(m);
  return true;
}

ballot quorum_crew::take(std::size_t i, std::string const& name, mutex_options const& options,
                         std::string const& epoch_id, std::optional<fencing_token> token,
                         managing::patience const& p, std::stop_token stop) {
  auto& m = at(i);
  ballot b;
  try {
    std::optional<std::int64_t> above;
    if (token) above = token->value;
    auto const spec =
        m.spec(name, for_member(options), false, std::nullopt, strategies::wanted_vote{epoch_id, above});
    auto came = m.acquire(spec, p, std::move(stop));
    b.why = came.why;
    b.holder = std::move(came.holder);
    if (came.won && came.won->expose()) b.granted = std::move(came.won);
    if (b.granted && b.granted->facts().token.value > now_us() + a_year_us) {
      (void)m.release(std::exchange(b.granted, nullptr));
      throw error(
          errc::failed,
          fmt::format("'{}': {} draws tokens that are more than a year ahead of this machine's clock: "
                      "it is left out. `rowlock quorum status` tells more",
                      name, where(i)));
    }
  } catch (error const& e) {
    b.failure = e;
  } catch (std::exception const& e) {
    b.failure = error(errc::failed, e.what());
  }
  heard(i, b.failure ? &*b.failure : nullptr);
  return b;
}

void quorum_crew::ask_for(std::size_t i, std::shared_ptr<quorum_hold> const& h, std::string const& epoch_id,
                          std::optional<fencing_token> token) {
  if (!h->begin_to_ask(i)) return;
  auto options = h->options();
  options.hard_limit = h->left_of_hard_limit();
  auto const asked = members_[i]->asked.run(
      [this, i, h, epoch_id, token, options = std::move(options)] {
        ballot b;
        // It may have stood in line behind one that got no answer.
        if (h->is_wanted()) b = take(i, h->name(), options, epoch_id, token, {.one_attempt = true}, {});
        auto const won = b.granted;
        if (h->answered(i, std::move(b)) || !won) return;
        (void)at(i).release(won);
      },
      errands::kind::may_be_dropped, is_suspect(i) ? 1 : most_questions);
  if (!asked)
    h->answered(i, {.failure = error(errc::unreachable, fmt::format("{} does not answer", where(i)))});
}

void quorum_crew::confirm(std::size_t i, std::shared_ptr<quorum_hold> const& h, fencing_token token,
                          std::string const& epoch_id, std::chrono::milliseconds lasts) {
  auto const granted = h->of(i);
  if (!granted || !h->begin_to_ask(i)) return;
  auto const asked = members_[i]->asked.run(
      [this, i, h, granted, token, epoch_id, lasts] {
        std::optional<error> failure;
        bool confirmed = false;
        try {
          confirmed = managing::voting(at(i).parts()).confirm(granted, token, epoch_id, lasts);
        } catch (error const& e) {
          failure = e;
        } catch (std::exception const& e) {
          failure = error(errc::failed, e.what());
        }
        heard(i, failure ? &*failure : nullptr);
        bool goes_on = false;
        if (failure && failure->reason() == errc::not_voting) {
          try {
            goes_on = look_again(i, epoch_id);
          } catch (std::exception const&) {  // the next renewal asks again
          }
        }
        h->confirmed(i, confirmed, token, failure);
        if (goes_on) confirm(i, h, token, view()->record.epoch_id, lasts);
        waiter_.wake();
      },
      errands::kind::may_be_dropped);
  if (!asked)
    h->confirmed(i, false, token, error(errc::unreachable, fmt::format("{} does not answer", where(i))));
}

void quorum_crew::give_back_later(std::size_t i, std::shared_ptr<holding::hold> const& h) noexcept try {
  members_[i]->asked.run([this, i, h] { (void)at(i).release(h); }, errands::kind::must_be_run);
} catch (std::exception const&) {  // no thread: its manager's end gives it back, or it expires
}

int quorum_crew::give_back(std::vector<std::shared_ptr<holding::hold>> granted, std::size_t last) noexcept
    try {
  auto const until = boot_clock::now() + at(last).parts().options.release_timeout;
  struct outcome {
    explicit outcome(std::size_t n) : others(n) {}
    count_down others;
    std::atomic<int> gone{0};
  };
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < granted.size(); ++i)
    if (granted[i] && i != last) others.push_back(i);
  auto const came = std::make_shared<outcome>(others.size());
  for (auto const i : others)
    members_[i]->asked.run(
        [this, i, h = granted[i], came] {
          if (at(i).release(h) == release_result::released) ++came->gone;
          came->others.one_less();
        },
        errands::kind::must_be_run);
  // Whoever waits there asks the others as soon as it has the first.
  bool const waited_for = granted[last] && granted[last]->has_gate();
  auto const wait = [&] {
    if (!others.empty()) came->others.wait_until(until);
  };
  if (waited_for) wait();
  int const here = granted[last] && at(last).release(granted[last]) == release_result::released ? 1 : 0;
  if (!waited_for) wait();
  return here + came->gone.load();
} catch (std::exception const&) {  // no thread or memory: they expire
  return 0;
}

void quorum_crew::keep(std::shared_ptr<quorum_hold> const& h) {
  auto const first = boot_clock::now() + std::chrono::nanoseconds(h->options().ttl) / 3;
  std::lock_guard const guard(mutex_);
  if (!keeper_.joinable()) keeper_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  // A member that has not granted, or was late, is asked soon.
  std::vector<boot_time_point> next(size(), first);
  for (std::size_t i = 0; i < size(); ++i)
    if (!h->of(i)) next[i] = boot_clock::now() + std::chrono::nanoseconds(h->options().ttl) / retries_in_ttl;
  kept_.push_back({h, std::move(next)});
  waiter_.wake();
}

void quorum_crew::forget(quorum_hold const& h) noexcept {
  std::lock_guard const guard(mutex_);
  std::erase_if(kept_, [&](kept const& k) { return k.hold.get() == &h; });
}

bool quorum_crew::held_by_this_thread(std::string const& name) const {
  std::lock_guard const guard(mutex_);
  return std::any_of(kept_.begin(), kept_.end(), [&](kept const& k) {
    return k.by == std::this_thread::get_id() && k.hold->name() == name && k.hold->valid();
  });
}

void quorum_crew::run(std::stop_token stop) {
  base::serving const here;
  std::stop_callback const at_stop(stop, [this] { waiter_.wake(); });
  while (!stop.stop_requested()) waiter_.wait_until(look());
}

boot_time_point quorum_crew::look() {
  auto next = boot_time_point::max();
  std::vector<std::shared_ptr<quorum_hold>> lost;
  {
    std::lock_guard const guard(mutex_);
    auto const now = boot_clock::now();
    for (auto& k : kept_) {
      (void)k.hold->look();
      if (k.hold->to_be_announced()) lost.push_back(k.hold);
      if (!k.hold->held()) continue;
      next = std::min({next, renew(k, *view_, now), k.hold->alarm()});
    }
    std::erase_if(kept_, [](kept const& k) { return !k.hold->held(); });
  }
  for (auto const& h : lost) {
    auto const why = h->loss();
    tell({.kind = event_kind::lost,
          .name = h->name(),
          .token = h->token(),
          .loss = why,
          .message = why ? to_string(*why) : ""});
    h->announce_loss();
  }
  return next;
}

// A member that has it is to renew it; one that has not, or has lost it, is asked to grant it again, in the
// same way as at first: by a new term, which counts only if it knows the token. Not one from which an
// operator has taken it.
boot_time_point quorum_crew::renew(kept& k, quorum_view const& v, boot_time_point now) {
  auto const ttl = std::chrono::nanoseconds(k.hold->options().ttl);
  auto next = boot_time_point::max();
  for (std::size_t i = 0; i < size(); ++i) {
    if (v.left_out[i]) continue;
    if (now >= k.next[i]) {
      auto const granted = k.hold->of(i);
      bool const has_it = granted && granted->valid();
      if (has_it && k.hold->options().renew)
        confirm(i, k.hold, k.hold->token(), v.record.epoch_id, k.hold->options().ttl);
      std::shared_ptr<holding::hold> former;
      if (!has_it && k.hold->options().renew && k.hold->may_ask_again(i, former)) {
        if (former) give_back_later(i, former);
        ask_for(i, k.hold, v.record.epoch_id, k.hold->token());
      }
      bool const waits = has_it && !is_suspect(i);
      k.next[i] = now + (waits ? ttl / 3 : std::max<std::chrono::nanoseconds>(ttl / retries_in_ttl, 20ms));
    }
    next = std::min(next, k.next[i]);
  }
  return next;
}

}  // namespace rowlock::recipes

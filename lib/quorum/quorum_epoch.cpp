#include "quorum/quorum_epoch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

namespace rowlock::voting {

using namespace std::chrono_literals;

fencing_token quorum_view::token_now() const noexcept {
  using std::chrono::microseconds;
  auto const now = clock.time_since_epoch() + (boot_clock::now() - clock_read_at);
  return {std::chrono::duration_cast<microseconds>(now).count()};
}

std::shared_ptr<quorum_view const> quorum_epoch::known() const {
  std::lock_guard const guard(mutex_);
  return view_;
}

std::shared_ptr<quorum_view const> quorum_epoch::view() {
  std::shared_ptr<quorum_view const> former;
  {
    std::lock_guard const guard(mutex_);
    if (view_ && !std::exchange(may_be_over_, false)) return view_;
    former = view_;
  }
  auto fresh = former ? learn_anew(former) : learn();
  std::lock_guard const guard(mutex_);
  if (!view_ || fresh->record.quorum_id != view_->record.quorum_id ||
      fresh->record.epoch > view_->record.epoch)
    view_ = std::move(fresh);
  return view_;
}

// A member that moved to another quorum is just a lost member.
std::shared_ptr<quorum_view const> quorum_epoch::learn_anew(
    std::shared_ptr<quorum_view const> const& former) {
  try {
    return learn();
  } catch (error const&) {
    return former;
  }
}

// Once a majority has answered, waits 100 ms more for the rest: they are asked again when they vote.
std::shared_ptr<quorum_view const> quorum_epoch::learn() {
  struct answers {
    std::mutex mutex;
    std::condition_variable come;
    std::vector<std::optional<strategies::member_state>> states;
    std::optional<error> trouble;
    std::size_t left = 0;
    std::size_t good = 0;
  };
  auto const got = std::make_shared<answers>();
  got->states.resize(members_.size());
  got->left = members_.size();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto const asks = [this, i, got] {
      std::optional<strategies::member_state> state;
      std::optional<error> failure;
      try {
        state = members_.at(i).read(false);
      } catch (error const& e) {
        failure = e;
      } catch (std::exception const& e) {
        failure = error(errc::failed, e.what());
      }
      members_.heard(i, failure ? &*failure : nullptr);
      std::lock_guard const guard(got->mutex);
      if (state) ++got->good;
      got->states[i] = std::move(state);
      if (failure) got->trouble = std::move(failure);
      --got->left;
      got->come.notify_all();
    };
    if (!members_.ask(i, asks, base::task_queue::kind::must_be_run)) asks();
  }
  std::unique_lock lock(got->mutex);
  got->come.wait(lock, [&] { return got->left == 0 || got->good > members_.size() / 2; });
  if (got->left > 0) got->come.wait_for(lock, 100ms, [&] { return got->left == 0; });
  return view_of(got->states, got->trouble);
}

std::shared_ptr<quorum_view const> quorum_epoch::view_of(
    std::vector<std::optional<strategies::member_state>> const& states,
    std::optional<error> const& trouble) const {
  // An epoch that only a joining member knows has not begun: its join was cut off before the others heard of
  // it.
  strategies::member_state const* newest = nullptr;
  std::size_t answered = 0;
  for (auto const& s : states) {
    if (!s) continue;
    ++answered;
    if (s->record.quorum_id.empty()) continue;
    if (newest != nullptr && newest->record.quorum_id != s->record.quorum_id)
      throw error(errc::not_voting,
                  "these databases are members of different quorums: `rowlock quorum status` tells");
    auto const rank = [](strategies::member_record const& r) { return std::pair(r.votes, r.epoch); };
    if (newest == nullptr || rank(s->record) > rank(newest->record)) newest = &*s;
  }
  if (newest == nullptr || (!newest->record.votes && newest->record.epoch == 1)) {
    if (answered <= members_.size() / 2 && trouble) throw error(*trouble);
    throw error(errc::not_voting,
                newest == nullptr
                    ? "these databases are no quorum: `rowlock quorum init` makes one of them"
                    : "`rowlock quorum init` of these databases was not finished: call it again");
  }
  auto seen = std::make_shared<quorum_view>();
  seen->record = newest->record;
  auto const& ids = seen->record.members;
  if (ids.size() != members_.size())
    throw error(errc::not_voting, fmt::format("these are {} databases, and their quorum has {} members",
                                              members_.size(), ids.size()));
  std::size_t ours = 0;
  std::vector<std::chrono::system_clock::time_point> clocks;
  for (auto const& s : states) {
    bool const out = s && std::find(ids.begin(), ids.end(), s->database_id) == ids.end();
    seen->left_out.push_back(out);
    if (!out) ++ours;
    if (s && !out) clocks.push_back(s->clock);
  }
  if (ours < seen->majority())
    throw error(
        errc::not_voting,
        fmt::format("only {} of these databases are among the {} members of their quorum: the list is "
                    "another one",
                    ours, ids.size()));
  if (clocks.empty())
    throw error(errc::not_voting,
                "none of the databases that answer is a member of the quorum that they tell of: "
                "`rowlock quorum status` tells");
  std::nth_element(clocks.begin(), clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2),
                   clocks.end());
  seen->clock = clocks.at(clocks.size() / 2);
  seen->clock_read_at = boot_clock::now();
  return seen;
}

std::shared_ptr<quorum_view const> quorum_epoch::look_again(std::size_t i, std::string const& epoch_id) {
  {
    std::lock_guard const guard(mutex_);
    if (view_ && view_->record.epoch_id != epoch_id) return view_;
  }
  auto const state = members_.at(i).read(false);
  auto const& its = state.record;
  std::lock_guard const guard(mutex_);
  if (!view_) return nullptr;
  may_be_over_ = may_be_over_ || (its.votes && its.quorum_id != view_->record.quorum_id);
  if (its.quorum_id != view_->record.quorum_id || its.epoch <= view_->record.epoch) return nullptr;
  // A joining member has this epoch without a vote, and might stay the only one that knows it.
  if (!its.votes) return nullptr;
  auto fresh = std::make_shared<quorum_view>(*view_);
  fresh->record = its;
  if (its.members.size() != members_.size()) return nullptr;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    auto const id = m == i ? state.database_id : members_.at(m).database_id();
    fresh->left_out[m] =
        !id.empty() && std::find(its.members.begin(), its.members.end(), id) == its.members.end();
  }
  view_ = fresh;
  return view_;
}

}  // namespace rowlock::voting

#include "quorum/quorum_members.hpp"

#include <algorithm>

#include "quorum/count_down.hpp"

namespace rowlock::voting {

namespace {

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

}  // namespace

quorum_members::quorum_members(std::vector<managing::member> members) {
  for (auto& m : members) {
    reply_timeout_ = std::max(reply_timeout_, m.reply_timeout());
    seats_.push_back(std::make_unique<seat>(std::move(m)));
  }
}

void quorum_members::heard(std::size_t i, error const* failure) noexcept {
  seats_[i]->suspect = failure != nullptr && means_silence(*failure);
}

bool quorum_members::ask(std::size_t i, base::task_queue::task question, base::task_queue::kind how,
                         std::size_t most) {
  return seats_[i]->asked.run(std::move(question), how, most);
}

void quorum_members::ask_all(std::function<void(std::size_t)> const& question) {
  count_down all(size());
  for (std::size_t i = 0; i < size(); ++i) {
    auto const asks = [&, i] {
      question(i);
      all.one_less();
    };
    if (!seats_[i]->asked.run(asks, base::task_queue::kind::must_be_run)) asks();
  }
  all.wait();
}

}  // namespace rowlock::voting

#include "recipes/quorum_peers.hpp"

#include <algorithm>

#include "recipes/count_down.hpp"

namespace rowlock::recipes {

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

quorum_peers::quorum_peers(std::vector<manager_ptr> members) {
  for (auto& m : members) {
    reply_timeout_ = std::max(reply_timeout_, m->parts().options.reply_timeout);
    seats_.push_back(std::make_unique<seat>(std::move(m)));
  }
}

std::string const& quorum_peers::where(std::size_t i) const { return at(i).parts().database.describe(); }

void quorum_peers::heard(std::size_t i, error const* failure) noexcept {
  seats_[i]->suspect = failure != nullptr && means_silence(*failure);
}

bool quorum_peers::ask(std::size_t i, base::task_queue::task question, base::task_queue::kind how,
                       std::size_t most) {
  return seats_[i]->asked.run(std::move(question), how, most);
}

void quorum_peers::ask_all(std::function<void(std::size_t)> const& question) {
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

}  // namespace rowlock::recipes

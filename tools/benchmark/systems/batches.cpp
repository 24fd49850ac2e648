#include "systems/batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "systems/databases.hpp"

namespace rowlock::bench {

std::string as_json(batch_jobs jobs) {
  std::string list = "[";
  for (auto const* one : jobs)
    fmt::format_to(std::back_inserter(list), R"({}{{"name":"{}","term":"{}","thread":4711}})",
                   list.size() > 1 ? "," : "", one->name, one->term);
  return list + "]";
}

void set_done(batch_jobs jobs, char const* name) {
  auto const found =
      std::find_if(jobs.begin(), jobs.end(), [&](batch_job const* one) { return one->name == name; });
  if (found != jobs.end()) (*found)->done = true;
}

batches::batches(std::unique_ptr<batch_line> line) : line_(std::move(line)), thread_([this] { serve(); }) {}

batches::~batches() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  lock.unlock();
  come_.notify_one();
}

void batches::join(batch_job& mine) {
  mine.done = false;
  std::unique_lock lock(mutex_);
  if (trouble_) std::rethrow_exception(trouble_);
  waiting_.push_back(&mine);
  bool const first = waiting_.size() == 1;
  lock.unlock();
  if (first) come_.notify_one();
  mine.over.wait();
  if (mine.done) return;
  lock.lock();
  if (trouble_) std::rethrow_exception(trouble_);
  throw peer_error("a lease that nobody competes for was not ours");
}

void batches::serve() noexcept {
  try {
    while (pick()) {
      line_->run(picked_);
      for (auto* one : picked_) one->over.ring();
    }
  } catch (...) {
    std::scoped_lock const guard(mutex_);
    trouble_ = std::current_exception();
    for (auto const* all : {&picked_, &waiting_})
      for (auto* one : *all) one->over.ring();
  }
}

/// @return false at the end
bool batches::pick() {
  std::unique_lock lock(mutex_);
  come_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
  auto const end = waiting_.begin() + std::min<std::ptrdiff_t>(std::ssize(waiting_), batch_size);
  picked_.assign(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  return !picked_.empty();
}

class batch_session::one_client : public client {
 public:
  explicit one_client(batch_session& shared) : shared_(shared) {}
  bool take(std::string const& name, std::stop_token const&) override {
    if (name != take_.name) {
      take_.name = give_.name = name;
      std::scoped_lock const guard(shared_.mutex_);
      shared_.add_row_(take_);
    }
    take_.term = give_.term = new_term();
    shared_.takes_.join(take_);
    return true;
  }
  void give_back() override { shared_.releases_.join(give_); }

 private:
  batch_session& shared_;
  batch_job take_;
  batch_job give_;
};

batch_session::batch_session(std::unique_ptr<batch_line> takes, std::unique_ptr<batch_line> releases,
                             std::function<void(batch_job&)> add_row)
    : add_row_(std::move(add_row)), takes_(std::move(takes)), releases_(std::move(releases)) {}

std::unique_ptr<client> batch_session::new_client() { return std::make_unique<one_client>(*this); }

}  // namespace rowlock::bench

#include "waiting/local_queue.hpp"

#include "base/per_process.hpp"
#include "base/process_end.hpp"

namespace rowlock::waiting {

local_queue& local_queue::of_this_process() { return base::per_process<local_queue>(); }

local_queue::turn::turn(turn&& other) noexcept
    : queue_(std::exchange(other.queue_, nullptr)), key_(std::move(other.key_)) {}

void local_queue::turn::leave() noexcept {
  auto* r = std::exchange(queue_, nullptr);
  if (r != nullptr && r == &of_this_process()) r->leave(key_);
}

void local_queue::turn::took(std::shared_ptr<local_holder> const& h) noexcept {
  if (queue_ != nullptr) queue_->took(key_, h);
}

bool local_queue::turn::has_successor_for(local_holder const& o, void const* of) const noexcept {
  if (queue_ == nullptr || queue_ != &of_this_process()) return false;
  std::lock_guard const guard(queue_->mutex_);
  return queue_->has_successor(queue_->places_.find(key_), o, of);
}

bool local_queue::turn::leave_to_successor(std::shared_ptr<local_holder> const& o, void const* of) noexcept {
  if (queue_ == nullptr || queue_ != &of_this_process()) return false;
  std::lock_guard const guard(queue_->mutex_);
  auto const found = queue_->places_.find(key_);
  if (!queue_->has_successor(found, *o, of)) return false;
  queue_->hand_on(found, o);
  queue_ = nullptr;
  return true;
}

bool local_queue::has_successor(places::iterator found, local_holder const& o,
                                void const* of) const noexcept {
  if (found == places_.end() || found->second.line.empty()) return false;
  auto const* next = found->second.line.front()->as_successor;
  return next != nullptr && next->takes_over(o, of);
}

bool local_queue::is_waited_for(key const& k) const noexcept {
  std::lock_guard const guard(mutex_);
  auto const found = places_.find(k);
  return found != places_.end() && !found->second.line.empty();
}

void local_queue::took(key const& k, std::shared_ptr<local_holder> const& h) noexcept {
  std::lock_guard const guard(mutex_);
  if (auto found = places_.find(k); found != places_.end()) found->second.held = h;
}

void local_queue::leave(key const& k) noexcept {
  std::lock_guard const guard(mutex_);
  if (auto const found = places_.find(k); found != places_.end()) hand_on(found);
}

void local_queue::hand_on(places::iterator found, std::shared_ptr<local_holder> handed_off) noexcept {
  auto& here = found->second;
  here.held.reset();
  if (here.line.empty()) {
    places_.erase(found);
    return;
  }
  auto* next = here.line.front();
  here.line.pop_front();
  here.owner = std::move(next->owner);
  next->has_turn = true;
  next->handed_off = std::move(handed_off);
  next->to_ring.ring();
}

local_queue::in_line::~in_line() {
  if (me_ && queue_ == &of_this_process()) queue_->leave_line(*me_, true);
}

bool local_queue::leave_line(in_line::waiter& w, bool hand_turn_on) noexcept {
  std::lock_guard const guard(mutex_);
  auto const found = places_.find(w.where);
  if (!w.has_turn)
    found->second.line.erase(w.at);
  else if (hand_turn_on)
    hand_on(found);
  return w.has_turn;
}

std::optional<local_queue::arrival> local_queue::in_line::leave() noexcept {
  if (!me_ || queue_ != &of_this_process()) return std::nullopt;
  if (queue_->leave_line(*me_, false)) return take_turn();
  me_.reset();
  return std::nullopt;
}

local_queue::arrival local_queue::in_line::take_turn() noexcept {
  arrival mine{turn(*queue_, std::move(me_->where)), std::move(me_->handed_off)};
  me_.reset();
  return mine;
}

std::optional<local_queue::arrival> local_queue::in_line::come() noexcept {
  {
    std::lock_guard const guard(queue_->mutex_);
    if (!me_ || !me_->has_turn) return std::nullopt;
  }
  return take_turn();
}

std::shared_ptr<local_holder> local_queue::in_line::in_front() const {
  std::lock_guard const guard(queue_->mutex_);
  return queue_->places_.at(me_->where).held.lock();
}

local_queue::in_line::in_line(local_queue& q, key k, owner_id const& owner, bell& b, successor const* h)
    : queue_(&q), me_(new waiter{std::move(k), owner, b, h}) {}

local_queue::entrance local_queue::enter(key const& k, owner_id const& owner, bell* to_ring,
                                         successor const* as_successor) {
  auto mine = k;                       // copied first: nothing may fail once the place is made
  std::shared_ptr<local_holder> held;  // outlives the guard. Its last owner leaves the place
  std::lock_guard const guard(mutex_);
  auto const [found, fresh] = places_.try_emplace(k, owner);
  if (fresh) return turn(*this, std::move(mine));
  auto& here = found->second;
  held = here.held.lock();
  if (held && here.owner.same(owner) && held->has_handles()) return already_held{std::move(held)};
  if (to_ring == nullptr) return busy{std::move(held)};
  base::watch_for_process_end_of_others();
  std::list<in_line::waiter*> last{nullptr};  // can fail, so it comes first
  in_line me(*this, std::move(mine), owner, *to_ring, as_successor);
  last.front() = me.me_.get();
  me.me_->at = last.begin();
  here.line.splice(here.line.end(), last);
  return me;
}

}  // namespace rowlock::waiting

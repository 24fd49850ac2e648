#include "worker.hpp"

#include <exception>
#include <thread>

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

std::int64_t ns(boot_time_point t) { return t.time_since_epoch().count(); }

/// Whether it says nothing of locks: the server is away, or somebody has changed it.
bool is_the_databases(std::error_code const& code) {
  for (auto const each :
       {errc::unreachable, errc::access_denied, errc::read_only, errc::too_many_connections,
        errc::storage_full, errc::schema_missing, errc::schema_old, errc::schema_new, errc::in_doubt})
    if (code == each) return true;
  return false;
}

/// A lock whose term was read is not handed on inside the process: half of the processes do not read it.
bool reads_terms(std::uint32_t seat) { return seat % 2 == 0; }

}  // namespace

std::string name_of(std::size_t lock) { return "torture/" + std::to_string(lock); }

worker::worker(desk const& d, std::uint32_t thread)
    : desk_(d),
      section_(d.numbers.open(d.o.db, d.manager)),
      random_(d.o.seed + 1000 * d.seat + 100 * thread + 7919 * d.life),
      thread_(thread) {}

record worker::begin(std::size_t lock, std::int64_t units) {
  asked_ = boot_clock::now();
  record r;
  r.process = desk_.seat;
  r.life = desk_.life;
  r.thread = thread_;
  r.name = static_cast<std::uint32_t>(lock);
  r.turn = ++turn_;
  r.units = units;
  return r;
}

void worker::write(record r, happening what, std::string_view text) const {
  r.what = what;
  r.set_text(text);
  desk_.history.write(r);
}

void worker::failed(std::vector<record> const& several, std::exception const& e) const {
  note_failure(several, e);
  std::this_thread::sleep_for(pause_after_failure);
}

void worker::note_failure(std::vector<record> const& several, std::exception const& e) const {
  auto const* const ours = dynamic_cast<error const*>(&e);
  auto const what = ours != nullptr && is_the_databases(ours->code()) ? happening::away : happening::failed;
  // There is not much room, and a message begins with the address.
  for (auto const& r : several) write(r, what, ours != nullptr ? ours->code().message() : e.what());
}

std::chrono::milliseconds worker::section_time() {
  auto const ttl = desk_.o.ttl;
  // Who was given the lock after a fault, which may have been a mistake, holds on to it, so that another one
  // comes in between; once in a while, for others wait meanwhile.
  auto const now = boot_clock::now();
  if (now - asked_ > ttl / 2 && now > next_long_) {
    next_long_ = now + 4 * ttl;
    return ttl / 5;
  }
  // Now and then longer than the lock lasts without a renewal.
  return draw(500) == 0 ? ttl + ttl / 2 : std::chrono::milliseconds(draw(4));
}

void worker::think_briefly(std::function<bool()> const& goes_on) {
  pass(draw(12) == 0 ? desk_.o.ttl / 5 : std::chrono::milliseconds(draw(8)), goes_on);
}

void worker::pass(std::chrono::milliseconds time, std::function<bool()> const& goes_on) {
  auto const end = boot_clock::now() + time;
  while (boot_clock::now() < end && goes_on()) std::this_thread::sleep_for(1ms);
}

std::chrono::milliseconds worker::patience() {
  switch (draw(4)) {
    case 0:
      return 0ms;
    case 1:
      return std::chrono::milliseconds(draw(100));
    default:
      return 60s;
  }
}

mutex_options worker::how() const {
  mutex_options how;
  how.ttl = desk_.o.ttl;
  how.retry = {.first = 1ms, .longest = 100ms};
  return how;
}

template <class Lock>
std::function<void()> worker::told::on_loss(Lock const& lock) {
  record_.token = lock.token().value;
  if (trust_) {
    record_.trusted_until = last_ = trust_();
    record_.set_term(lock.name() + "#" + std::to_string(lock.token().value));
  }
  worker_.write(record_, happening::got);
  return [this, &lock] {
    record r = record_;
    // Also what was renewed while nobody looked, because a statement of the caller's took its time.
    r.trusted_until = trust_ ? trust_() : 0;
    auto const why = lock.loss();
    worker_.write(r, happening::lost, why ? to_string(*why) : "");
  };
}

worker::told::told(worker const& w, record r, held_lock const& lock)
    : worker_(w),
      record_([&] {
        if (!reads_terms(r.process)) return r;
        r.trusted_until = lock.trusted_until() ? ns(*lock.trusted_until()) : 0;
        r.set_term(lock.term().value);
        return r;
      }()),
      trust_(reads_terms(r.process) || !lock.trusted_until()
                 ? std::function<std::int64_t()>()
                 : [&lock] { return ns(lock.trusted_until().value_or(boot_time_point{})); }),
      loss_(lock.loss_token(), on_loss(lock)) {}

worker::told::told(worker const& w, record r, quorum_lock const& lock)
    : worker_(w),
      record_(r),
      trust_([&lock] { return ns(lock.trusted_until()); }),
      loss_(lock.loss_token(), on_loss(lock)) {}

void worker::told::look() {
  if (!trust_) return;
  auto const until = trust_();
  if (until <= last_) return;
  last_ = until;
  record r = record_;
  r.trusted_until = until;
  r.turn = 0;
  worker_.write(r, happening::trusts);
}

}  // namespace rowlock::torture

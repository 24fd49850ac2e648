#include "manager/doubtful_takes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "manager/wait_policy.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_doubts = 16;

}  // namespace

doubtful_takes::doubtful_takes(engine& e, manner how) noexcept
    : engine_(e), how_(how), strategy_(e.strategies.of(how.strategy)) {}

doubtful_takes::~doubtful_takes() {
  for (auto const& d : doubts_) give_back_later(d);
  abandon();
}

void doubtful_takes::send(terms what, int drawn) {
  doubts_.reserve(doubts_.size() + 1);  // so that reply_was_lost() needs no memory
  sent_.emplace(sent_take{std::move(what), drawn, boot_clock::now(), {}});
}

void doubtful_takes::reply_was_lost() noexcept {
  assert(sent_ && doubts_.size() < doubts_.capacity());
  in_doubt_ = true;
  doubts_.push_back(*std::exchange(sent_, std::nullopt));
  if (doubts_.size() <= most_doubts) return;
  give_back_later(doubts_.front());
  doubts_.erase(doubts_.begin());
}

// errc::failed can mean a reply that can't be read. So that take stays noted, and is released.
void doubtful_takes::failed(errc why) noexcept {
  if (!sent_) return;
  if (why == errc::in_doubt)
    reply_was_lost();
  else if (why != errc::failed)
    settle();
}

void doubtful_takes::abandon() noexcept {
  if (sent_) give_back_later(*sent_);
  sent_.reset();
}

void doubtful_takes::refuse_if_late(boot_time_point trusted_until) {
  assert(sent_ && !sent_->what.empty());
  came_too_late_ = boot_clock::now() >= trusted_until;
  if (came_too_late_)
    throw error(errc::unreachable,
                fmt::format("'{}': the database took longer to answer than the lease of {} ms lasts",
                            sent_->what.front().name, how_.ttl.count()));
}

doubtful_takes::outcome doubtful_takes::look(backend::connection& session) {
  assert(!none());
  auto const& names = doubts_.front().what;
  std::vector<std::optional<strategies::term_row>> rows;
  if (names.size() == 1) {
    std::vector<term_id> those;
    for (auto const& d : doubts_) those.push_back(d.what.front().term);
    rows.push_back(strategy_.find_doubtful(session, names.front().name, those, engine_.reply_deadline()));
  } else {
    rows = engine_.tables.locks.read_all(session, names, engine_.reply_deadline());
  }
  in_doubt_ = false;
  return look_at(session, rows);
}

// If a take has only some of its terms left, these are released.
doubtful_takes::outcome doubtful_takes::look_at(backend::connection& session,
                                                std::span<std::optional<strategies::term_row> const> rows) {
  auto came = outcome::absent;
  for (std::size_t k = doubts_.size(); k-- > 0;) {
    assert(doubts_[k].what.size() == rows.size());
    terms there;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] && rows[i]->term == doubts_[k].what[i].term) there.push_back(doubts_[k].what[i]);
    if (there.empty()) continue;
    bool const whole = there.size() == rows.size();
    if (whole && !are_kept(session, there)) {
      came = outcome::unkept;
      continue;
    }
    abandon();
    auto const at = doubts_.begin() + static_cast<std::ptrdiff_t>(k);
    if (whole) sent_ = std::move(*at);
    doubts_.erase(at);
    if (whole) {
      read_tokens(rows);
      return outcome::granted;
    }
    give_back(session, there);
  }
  return came;
}

// If the end of a session or server cuts a commit's wait for the standby short, readers see a commit that the
// standby lacks. The renewal's commit comes after it and waits for the standby.
bool doubtful_takes::are_kept(backend::connection& session, terms const& these) {
  in_doubt_ = true;
  bool const all =
      engine_.tables.of(how_.strategy).renew(session, these, engine_.reply_deadline()).size() == these.size();
  in_doubt_ = false;
  return all;
}

void doubtful_takes::read_tokens(std::span<std::optional<strategies::term_row> const> rows) {
  for (auto const& row : rows) {
    auto const last = row->holder.token.value;
    if (how_.fencing && last < sent_->drawn)
      throw error(errc::failed, fmt::format("'{}': its row has {}, which is no token", row->name, last));
    sent_->tokens.push_back(how_.fencing ? fencing_token{last - sent_->drawn + 1} : fencing_token{});
  }
}

void doubtful_takes::give_back(backend::connection& session) noexcept {
  if (sent_) give_back(session, sent_->what);
  sent_.reset();
}

void doubtful_takes::give_back(backend::connection& session, terms const& these) noexcept {
  auto const now = boot_clock::now();
  std::vector<strategies::given_back> done;
  try {
    if (these.size() > 1)
      done = strategy_.give_back_all(session, these, engine_.reply_deadline());
    else
      done.push_back(strategy_.give_back(session, these.front(), 0ms, engine_.reply_deadline()));
  } catch (std::exception const&) {  // later
  }
  for (std::size_t i = 0; i < these.size(); ++i)
    if (i >= done.size() || !done[i].was_there) give_back_later(these[i], now);
}

void doubtful_takes::give_back_later(strategies::name_and_term const& which, boot_time_point from,
                                     boot_time_point may_come_until) noexcept {
  auto const until = holding::leftover_until(how_.takeover, how_.ttl, from);
  if (boot_clock::now() < until)
    engine_.renewals.give_back_later(which.name, which.term, how_.strategy, 0ms, until, may_come_until);
}

// The server can go on with the take after the session has given up.
void doubtful_takes::give_back_later(sent_take const& take) noexcept {
  auto const waited = take.sent_at + std::chrono::nanoseconds(engine_.options.reply_timeout);
  for (auto const& which : take.what) give_back_later(which, waited, waited + longest_wait_in_server);
}

}  // namespace rowlock::managing

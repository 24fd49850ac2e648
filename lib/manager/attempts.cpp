#include "manager/attempts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/process_end.hpp"
#include "base/random_id.hpp"
#include "manager/kept.hpp"
#include "manager/patience.hpp"
#include "manager/server_wait.hpp"
#include "manager/start_holding.hpp"
#include "manager/unusable.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_doubts = 16;

}  // namespace

attempts::attempts(engine& e, lock_spec const& s, owner_id owner, std::stop_token stop)
    : engine_(e),
      spec_(s),
      strategy_(e.strategies.of(s.strategy)),
      owner_(std::move(owner)),
      stop_(std::move(stop)) {
  if (!s.permit) return;
  permit_.units = s.permit->units;
  permit_.limit = s.permit->limit;
  permit_.intent = base::random_id();
}

void attempts::look_at(std::optional<holder_info> holder) {
  seen_.reset();
  if (holder) seen_.emplace().holder = *std::move(holder);
}

strategies::take_request attempts::request() const {
  auto const& o = spec_.options;
  bool const looks_first = seen_ && !seen_->term.empty();
  auto vote = spec_.vote.value_or(strategies::wanted_vote{});
  if (proposed_) vote.token = proposed_->value;
  return {spec_.name, {},          owner_,  o.ttl,   o.hard_limit, o.takeover,     spec_.fencing,
          o.note,     looks_first, nullptr, tokens_, permit_,      std::move(vote)};
}

// A session that others need meanwhile is given up after connection_pool::longest_turn, and with it the place
// in the server's line: a name that is held must not keep one that is free from its caller.
bool attempts::wait_in_server(std::optional<boot_time_point> until) {
  auto what = request();
  what.term = {base::random_id()};
  boot_time_point sent_at;
  auto got = managing::wait_in_server(engine_, strategy_, what, until, stop_, sent_at);
  if (auto* const why_not = std::get_if<strategies::refused>(&got)) {
    seen_ = std::move(why_not->row);
    contended_ = why_not->by_nobody;
    return false;
  }
  auto& won = std::get<server_grant>(got);
  granted_.emplace(grant{facts_of(spec_, owner_, won.token, what.term, sent_at, 0), std::move(won.anchor)});
  return true;
}

void attempts::tell_wait() const noexcept {
  auto const& tell = spec_.options.on_wait;
  if (tell) engine_.events.call([&] { tell(seen_ ? &seen_->holder : nullptr); });
}

bool attempts::was_done() const noexcept {
  return seen_ && seen_->holder.done && seen_->holder.expires_in > std::chrono::milliseconds(0);
}

void attempts::draw_for_others() noexcept { tokens_ = strategy_.most_tokens(); }

bool attempts::make(std::optional<boot_time_point> wait_until, strategies::wanted_permit::place where) {
  contended_ = false;
  permit_.where = where;
  auto const tell = [this] {
    if (contended_) engine_.pool_of(spec_.strategy).locked_out();
  };
  try {
    bool const had = traits(spec_.strategy).waits_in_server ? wait_in_server(wait_until) : ask();
    tell();
    return had;
  } catch (error const& e) {
    contended_ = e.reason() == errc::row_locked;
    tell();
    refuse_if_unusable(engine_, e, spec_.name);
    throw;
  }
}

bool attempts::ask() {
  bool const busy = seen_ && !seen_->term.empty();
  if (strategy_.most_at_once() > 1 && doubts_.empty() && !busy && !owner_.is_explicit())
    if (auto const got = ask_with_others()) return *got;
  return ask(*engine_.session_to_write(engine_.reply_deadline(), stop_));
}

// The one that waits for a connection takes along those that come meanwhile.
std::optional<bool> attempts::ask_with_others() {
  shared_take mine{&strategy_, request()};
  std::optional<sessions::connection_pool::loan> alone;
  (void)engine_.traffic.takes.run(
      mine, engine_.reply_deadline(), stop_, go_together,
      [&] { return engine_.session_to_write(engine_.reply_deadline(), stop_); },
      [&](sessions::connection_pool::loan& loan, std::span<shared_take* const> all) noexcept {
        if (all.size() == 1)
          alone.emplace(std::move(loan));
        else
          take_together(engine_, *loan, all);
      });
  if (alone) return ask(**alone);
  if (!mine.doubtful && mine.failed) throw error(*mine.failed);
  if (!mine.doubtful && !mine.won) return std::nullopt;
  give_back_sent();
  sent_.emplace(doubt{std::move(mine.what.term), mine.sent_at, mine.what.tokens});
  if (mine.doubtful) {
    remember_sent();
    if (mine.failed) throw error(*mine.failed);
    throw error(errc::in_doubt, "no memory for the reply");
  }
  return accept_grant(*mine.won, sent_->term, mine.sent_at, mine.server);
}

// It stays in sent_ if there is no memory.
void attempts::remember_sent() {
  in_doubt_ = true;
  doubts_.push_back(*sent_);
  sent_.reset();
  if (doubts_.size() <= most_doubts) return;
  give_back_later(doubts_.front());
  doubts_.erase(doubts_.begin());
}

bool attempts::ask(backend::connection& session) {
  if (!doubts_.empty() && settle_doubts(session)) return true;
  if (stop_.stop_requested() || base::process_ends_elsewhere())
    return false;  // connecting may have taken its time
  if (take(session, std::nullopt)) return true;
  if (!seen_ || seen_->term.empty()) return false;
  if (claim_doubtful_term(session, *seen_)) return true;
  // Not what an operator wants back: its former self has to let go of it first, or it expires (C33).
  if (owner_.is_explicit() && seen_->holder.owner.same(owner_) && !seen_->holder.revoked)
    return take(session, strategies::superseded{seen_->term, std::nullopt});
  if (auto const ripe = watch_.look(*seen_, engine_.observations, spec_.vote.has_value()))
    return take(session, ripe);
  return false;
}

bool attempts::take(backend::connection& session, std::optional<strategies::superseded> const& old) {
  auto what = request();
  boot_time_point sent_at;
  give_back_sent();
  try {
    auto came = sessions::retry_deadlocks(engine_.events, spec_.name, engine_.reply_deadline(), [&] {
      what.term = {base::random_id()};
      sent_.emplace(doubt{what.term, boot_clock::now(), what.tokens});
      return strategy_.take(session, what, old, engine_.reply_deadline(), sent_at);
    });
    sent_->sent_at = sent_at;
    if (auto const* won = std::get_if<strategies::granted>(&came))
      return accept_grant(session, *won, what.term, sent_at);
    auto& why_not = std::get<strategies::refused>(came);
    seen_ = std::move(why_not.row);
    contended_ = why_not.by_nobody;
    if (why_not.waited_for) waited_for_until_ = std::chrono::steady_clock::now() + 500ms;
    if (seen_ && seen_->term == what.term)
      remember_sent();  // refused by its own grant: the reply to that was no good
    else
      sent_.reset();
    return false;
  } catch (error const& e) {
    if (!sent_) throw;
    if (e.reason() == errc::in_doubt) {
      sent_->sent_at = sent_at;
      remember_sent();
    } else if (e.reason() != errc::failed) {  // what fails may have been a reply that can't be read
      sent_.reset();
    }
    throw;
  }
}

bool attempts::settle_doubts(backend::connection& session) {
  std::vector<term_id> terms;
  for (auto const& d : doubts_) terms.push_back(d.term);
  auto const row = strategy_.find_doubtful(session, spec_.name, terms, engine_.reply_deadline());
  in_doubt_ = false;
  return row && claim_doubtful_term(session, *row);
}

// The row has the term of an attempt whose reply was lost: it was granted, perhaps only now (the server went
// on with the statement after we had given the session up). Trust counts from when that statement was sent.
bool attempts::claim_doubtful_term(backend::connection& session, strategies::term_row const& row) {
  auto const found =
      std::find_if(doubts_.begin(), doubts_.end(), [&](doubt const& d) { return d.term == row.term; });
  if (found == doubts_.end()) return false;
  strategies::name_and_term const which{spec_.name, row.term};
  in_doubt_ = true;
  bool const kept = are_kept(engine_, session, spec_.strategy, std::span(&which, 1));
  in_doubt_ = false;
  if (!kept) return false;
  give_back_sent();
  sent_ = *found;
  doubts_.erase(found);
  auto const& mine = *sent_;
  if (!spec_.fencing) return accept_grant(session, strategies::granted{}, mine.term, mine.sent_at);
  if (row.holder.token.value < mine.tokens)
    throw error(errc::failed,
                fmt::format("'{}': its row has {}, which is no token", spec_.name, row.holder.token.value));
  return accept_grant(session, {{row.holder.token.value - mine.tokens + 1}, mine.tokens}, mine.term,
                      mine.sent_at);
}

bool attempts::accept_grant(backend::connection& session, strategies::granted const& won, term_id const& term,
                            boot_time_point sent_at) try {
  return accept_grant(won, term, sent_at, engine_.database.server_of(session));
} catch (error const&) {
  give_back_at_once(session, term);
  sent_.reset();
  throw;
}

// Looks at the clock again after the reply: an answer that took longer than the lease lasts is no lock.
bool attempts::accept_grant(strategies::granted const& won, term_id const& term, boot_time_point sent_at,
                            std::size_t server) {
  auto mine = facts_of(spec_, owner_, won.token, term, sent_at, server);
  mine.tokens_left = static_cast<std::uint8_t>(won.tokens - 1);
  came_too_late_ = boot_clock::now() >= holding::first_trust(mine);
  if (came_too_late_)
    throw error(errc::unreachable,
                fmt::format("'{}': the database took longer to answer than the lease of {} ms lasts",
                            spec_.name, spec_.options.ttl.count()));
  granted_.emplace(grant{std::move(mine), std::nullopt});
  return true;
}

void attempts::give_back_at_once(backend::connection& session, term_id const& term) noexcept {
  try {
    strategy_.give_back(session, {spec_.name, term}, 0ms, engine_.reply_deadline());
  } catch (std::exception const&) {
    give_back_later(term);
  }
}

void attempts::give_back_later(term_id const& term) noexcept {
  auto const& o = spec_.options;
  auto const until = holding::leftover_until(o.takeover, o.ttl, boot_clock::now());
  engine_.renewals.give_back_later(spec_.name, term, spec_.strategy, 0ms, until);
}

void attempts::give_back_later(doubt const& d) noexcept {
  auto const& o = spec_.options;
  // The server may go on with it for as long as the session waited, and longer.
  auto const waited = d.sent_at + std::chrono::nanoseconds(engine_.options.reply_timeout);
  auto const until = holding::leftover_until(o.takeover, o.ttl, waited);
  if (boot_clock::now() < until)
    engine_.renewals.give_back_later(spec_.name, d.term, spec_.strategy, 0ms, until,
                                     waited + longest_wait_in_server);
}

std::optional<std::chrono::milliseconds> attempts::can_be_had_in() const {
  return seen_ ? watch_.can_be_had_in(*seen_) : std::nullopt;
}

void attempts::give_back_sent() noexcept {
  if (sent_ && traits(spec_.strategy).has_expiry) give_back_later(*sent_);
  sent_.reset();
}

attempts::~attempts() {
  for (auto const& d : doubts_) give_back_later(d);
  give_back_sent();
}

}  // namespace rowlock::managing

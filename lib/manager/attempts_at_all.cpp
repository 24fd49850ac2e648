#include "manager/attempts_at_all.hpp"

#include <fmt/format.h>

#include "base/process_end.hpp"
#include "base/random_id.hpp"
#include "manager/kept.hpp"
#include "manager/patience.hpp"
#include "manager/start_holding.hpp"
#include "manager/unusable.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_doubts_of_all = 16;

}  // namespace

attempts_at_all::attempts_at_all(engine& e, std::vector<lock_spec> const& specs, owner_id owner,
                                 std::stop_token stop)
    : engine_(e),
      specs_(specs),
      any_(specs.front()),
      strategy_(e.strategies.of(any_.strategy)),
      owner_(std::move(owner)),
      stop_(std::move(stop)),
      watch_(specs.size()) {}

bool attempts_at_all::make() {
  contended_ = false;
  busy_.reset();
  try {
    return ask();
  } catch (error const& e) {
    contended_ = e.reason() == errc::row_locked;
    if (contended_) engine_.pool.locked_out();
    for (auto const& one : specs_) refuse_if_unusable(engine_, e, one.name);
    throw;
  }
}

bool attempts_at_all::ask() {
  auto loan = engine_.session_to_write(engine_.reply_deadline(), stop_);
  auto& session = *loan;
  if (!doubts_.empty()) {
    auto const now = engine_.tables.locks.read_all(session, with({}), engine_.reply_deadline());
    in_doubt_ = false;
    if (adopt(session, now)) return true;
  }
  if (stop_.stop_requested() || base::process_ends_elsewhere()) return false;
  if (take(session, to_be_superseded(specs_.size()))) return true;
  if (adopt(session, seen_)) return true;
  auto const old = what_may_be_superseded();
  return old && take(session, *old);
}

std::vector<strategies::name_and_term> attempts_at_all::with(std::vector<term_id> const& terms) const {
  std::vector<strategies::name_and_term> list;
  list.reserve(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i)
    list.push_back({specs_[i].name, terms.empty() ? term_id{} : terms[i]});
  return list;
}

bool attempts_at_all::take(backend::connection& session, to_be_superseded const& old) {
  auto const& o = any_.options;
  strategies::take_request const how{{},     {},    owner_,  o.ttl, o.hard_limit, o.takeover, any_.fencing,
                                     o.note, false, nullptr, 1};
  std::vector<strategies::wanted_lock> wanted(specs_.size());
  boot_time_point sent_at;
  give_back_sent();
  try {
    auto came = sessions::retry_deadlocks(engine_.events, any_.name, engine_.reply_deadline(), [&] {
      auto ids = base::random_ids(specs_.size());
      std::vector<term_id> terms(specs_.size());
      for (std::size_t i = 0; i < specs_.size(); ++i) {
        terms[i] = {std::move(ids[i])};
        wanted[i] = {specs_[i].name, terms[i], old[i]};
      }
      sent_.emplace(doubt{std::move(terms), boot_clock::now()});
      return strategy_.take_all(session, how, wanted, engine_.reply_deadline(), sent_at);
    });
    sent_->sent_at = sent_at;
    if (auto const* won = std::get_if<strategies::all_granted>(&came)) return accept(session, won->tokens);
    saw(std::get<strategies::all_refused>(std::move(came)).rows);
    if (has_sent(seen_))
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

bool attempts_at_all::has_sent(rows const& r) const noexcept {
  for (std::size_t i = 0; i < r.size(); ++i)
    if (r[i] && r[i]->term == sent_->terms[i]) return true;
  return false;
}

// It stays in sent_ if there is no memory.
void attempts_at_all::remember_sent() {
  in_doubt_ = true;
  doubts_.push_back(*sent_);
  sent_.reset();
  if (doubts_.size() <= most_doubts_of_all) return;
  give_back_later(doubts_.front());
  doubts_.erase(doubts_.begin());
}

void attempts_at_all::saw(rows r) {
  seen_ = std::move(r);
  busy_.reset();
  for (std::size_t i = 0; i < seen_.size() && !busy_; ++i)
    if (seen_[i] && !seen_[i]->takeable()) busy_ = i;
  contended_ = !busy_;
}

// The rows have the terms of an attempt whose reply was lost: all of it was granted, perhaps only now. Trust
// counts from when that was sent. Where some of its terms are gone already, the others are given back.
bool attempts_at_all::adopt(backend::connection& session, rows const& r) {
  for (std::size_t k = doubts_.size(); k-- > 0;) {
    std::vector<strategies::name_and_term> there;
    std::vector<fencing_token> tokens;
    for (std::size_t i = 0; i < r.size(); ++i)
      if (r[i] && r[i]->term == doubts_[k].terms[i]) {
        there.push_back({specs_[i].name, r[i]->term});
        tokens.push_back(any_.fencing ? r[i]->holder.token : fencing_token{});
      }
    if (there.empty()) continue;
    if (there.size() == specs_.size()) {
      in_doubt_ = true;
      bool const kept = are_kept(engine_, session, any_.strategy, there);
      in_doubt_ = false;
      if (!kept) continue;
    }
    give_back_sent();
    sent_ = std::move(doubts_[k]);
    doubts_.erase(doubts_.begin() + static_cast<std::ptrdiff_t>(k));
    if (there.size() == specs_.size()) return accept(session, tokens);
    give_back(session, there);
    sent_.reset();
  }
  return false;
}

// Looks at the clock again after the reply: an answer that took longer than the lease lasts is no lock.
bool attempts_at_all::accept(backend::connection& session, std::vector<fencing_token> const& tokens) {
  auto const& [terms, sent_at] = *sent_;
  for (auto const& token : tokens)
    if (any_.fencing && token.value < 1)
      throw error(errc::failed, fmt::format("'{}': a row has {}, which is no token", any_.name, token.value));
  auto const server = engine_.database.server_of(session);
  granted_.clear();
  for (std::size_t i = 0; i < specs_.size(); ++i)
    granted_.push_back(facts_of(specs_[i], owner_, tokens[i], terms[i], sent_at, server));
  came_too_late_ = boot_clock::now() >= holding::first_trust(granted_.front());
  if (!came_too_late_) return true;
  granted_.clear();
  give_back(session, with(terms));
  sent_.reset();
  throw error(errc::unreachable,
              fmt::format("'{}': the database took longer to answer than the lease of {} ms lasts", any_.name,
                          any_.options.ttl.count()));
}

void attempts_at_all::give_back(backend::connection& session,
                                std::vector<strategies::name_and_term> const& which) noexcept try {
  auto const now = boot_clock::now();
  std::vector<strategies::given_back> done(which.size());
  try {
    done = strategy_.give_back_all(session, which, engine_.reply_deadline());
  } catch (error const&) {  // later
  }
  for (std::size_t i = 0; i < which.size(); ++i)
    if (!done[i].was_there) give_back_later(which[i].name, which[i].term, now);
} catch (std::exception const&) {  // no memory
  for (auto const& one : which) give_back_later(one.name, one.term, boot_clock::now());
}

void attempts_at_all::give_back_later(std::string const& name, term_id const& term, boot_time_point sent_at,
                                      boot_time_point may_come_until) noexcept {
  auto const until = holding::leftover_until(any_.options.takeover, any_.options.ttl, sent_at);
  if (boot_clock::now() < until)
    engine_.renewals.give_back_later(name, term, any_.strategy, 0ms, until, may_come_until);
}

void attempts_at_all::give_back_later(doubt const& d) noexcept {
  // The server may go on with it for as long as the session waited, and longer.
  auto const last = d.sent_at + std::chrono::nanoseconds(engine_.options.reply_timeout);
  for (std::size_t i = 0; i < d.terms.size(); ++i)
    give_back_later(specs_[i].name, d.terms[i], last, last + longest_wait_in_server);
}

// @return nothing if one of them is held and may not be replaced, or none need be
std::optional<attempts_at_all::to_be_superseded> attempts_at_all::what_may_be_superseded() {
  to_be_superseded old(seen_.size());
  bool any = false;
  bool all = true;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    auto const& row = seen_[i];
    if (!row || row->takeable()) continue;
    // Not what an operator wants back: its former self has to let go of it first, or it expires (C33).
    auto const& by = row->holder;
    if (owner_.is_explicit() && by.owner.same(owner_) && !by.revoked)
      old[i] = strategies::superseded{row->term, std::nullopt};
    else
      old[i] = watch_[i].look(*row, engine_.observations, false);
    any = any || old[i];
    all = all && old[i];
  }
  if (!any || !all) return std::nullopt;
  return old;
}

std::optional<std::chrono::milliseconds> attempts_at_all::can_be_had_in() const {
  return busy_ ? watch_[*busy_].can_be_had_in(*seen_[*busy_]) : std::nullopt;
}

void attempts_at_all::give_back_sent() noexcept {
  if (sent_) give_back_later(*sent_);
  sent_.reset();
}

attempts_at_all::~attempts_at_all() {
  for (auto const& d : doubts_) give_back_later(d);
  give_back_sent();
}

}  // namespace rowlock::managing

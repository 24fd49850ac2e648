#include "commands/session.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>

#include "commands/taking.hpp"
#include "commands/term.hpp"
#include "duration.hpp"
#include "exit_status.hpp"

namespace rowlock::tool {

namespace {

std::string in_parentheses(std::string const& text) { return text.empty() ? "" : fmt::format(" ({})", text); }

}  // namespace

session::session(database const& db, run_options const& options, mutex_options how,
                 signal_setup const& signals, guard& g)
    : db_(db),
      options_(options),
      mutex_options_(std::move(how)),
      guard_(g),
      signals_(signals),
      signal_fd_(signals.open()) {
  manager_ = std::make_unique<lock_manager>(db.url, for_manager());
}

session::session(std::vector<database> const& each, run_options const& options, mutex_options how,
                 signal_setup const& signals, guard& g)
    : db_(each.front()),
      options_(options),
      mutex_options_(std::move(how)),
      guard_(g),
      signals_(signals),
      signal_fd_(signals.open()) {
  members_ = std::make_unique<members>(each, for_manager());
}

manager_options session::for_manager() {
  mutex_options_.on_trust = [this](boot_time_point) { trust_moved(); };
  manager_options o;
  o.table_prefix = db_.table_prefix;
  o.schema = db_.schema;
  o.connections = 1;  // beside the renewer's: fifty jobs at once should fit into a server's default limit
  o.row_lock_connections = 1;
  o.strategy = mutex_options_.strategy.value_or(o.strategy);
  o.on_event = [this](event const& e) { hear(e); };
  return o;
}

void session::hear(event const& e) {
  if (e.kind != event_kind::error && e.kind != event_kind::renewed) return;
  std::lock_guard const lock(trouble_mutex_);
  trouble_ = e.message;  // of a renewal none: what was before is over
}

std::optional<end_of_program> session::take(invocation const& call) {
  auto asked = members_ ? taking(db_, members_->at(0), members_->all(), options_.name, mutex_options_,
                                 options_.waiting, signals_)
                        : taking(db_, *manager_, options_.names(), mutex_options_, options_.waiting,
                                 options_.share, signals_);
  locks_ = asked.take(call);
  if (locks_.empty()) return asked.ended();
  asked_at_ = asked_at();
  have_them_ = true;
  return {};
}

outcome session::guard_command() {
  // First: what is lost by now ends a command that has not begun.
  auto const hear_of_it = [this] { lock_lost(); };
  std::deque<std::stop_callback<std::function<void()>>> on_loss;
  for (auto const& lock : locks_) on_loss.emplace_back(lock.loss_token(), hear_of_it);
  auto const& first = locks_.front();
  if (options_.on_grant) options_.on_grant(first.token());
  guard_.start(options_.name, first.token(), first.term(), trusted_until().value_or(never),
               traits_of(mutex_options_).owns_session ? fingerprint(db_) : "");
  return guard_.wait(signal_fd_.get());
}

/// By the thread that renews. What was renewed before the command runs, guard_command() sees.
void session::trust_moved() noexcept {
  if (!have_them_) return;
  if (auto const ends = trusted_until()) guard_.renewed(*ends);
}

std::optional<boot_time_point> session::trusted_until() const noexcept {
  std::optional<boot_time_point> earliest;
  for (auto const& lock : locks_)
    if (auto const ends = lock.trusted_until(); ends && (!earliest || *ends < *earliest)) earliest = ends;
  return earliest;
}

covering_lock const* session::lost() const noexcept {
  auto const found =
      std::find_if(locks_.begin(), locks_.end(), [](auto const& l) { return l.loss().has_value(); });
  return found == locks_.end() ? nullptr : &*found;
}

/// Trust that the library has ended already (taken over, row gone) leaves no time for a grace; otherwise the
/// row is still ours until its expiry. A row lock is gone when we hear of it.
void session::lock_lost() noexcept { guard_.end(trusted_until().value_or(boot_clock::now())); }

release_result session::let_go(covering_lock& lock, outcome const& o) try {
  if (!options_.record_for || !options_.is_done(o)) return lock.release();
  return lock.single().done(*options_.record_for, options_.note) ? release_result::released
                                                                 : release_result::already_lost;
} catch (error const& e) {
  throw failure(
      exit_unreachable,
      fmt::format("the command for '{}' has succeeded, but it could not be found out whether that is "
                  "recorded: {}",
                  options_.name, e.what()));
}

/// As a take rides out a switch-over or a full disk. [C70]
release_result session::try_late(covering_lock const& lock, boot_time_point until) {
  auto const why = give_back_late(*manager_, {lock.name(), {lock.term()}}, until, signal_fd_.get());
  if (!why) return release_result::released;
  std::lock_guard const guard(trouble_mutex_);
  trouble_ = *why;
  return release_result::in_doubt;
}

std::optional<end_of_program> session::give_back(outcome const& o) {
  if (o.what.left > 0) leave_to_expire(o);
  auto const* const lost_before = lost();
  bool const ended_early = o.what.why != ending::by_itself || lost_before != nullptr;
  auto const name = (lost_before == nullptr ? locks_.front() : *lost_before).name();
  auto const reason = why_lost(o);  // before release(), which ends trust
  auto const trusted = trusted_until();
  auto result = release_result::released;
  for (auto& lock : locks_) {
    auto one = let_go(lock, o);
    if (one == release_result::in_doubt && trusted && manager_ && !lost_before)
      one = try_late(lock, *trusted);
    if (result == release_result::released) result = one;
  }
  if (o.from == outcome::source::guardian_gone) {
    say(fmt::format("the guardian process of '{}' was killed, so the command was ended, too", options_.name));
    return end_of_program{exit_bug, {}};
  }
  if (ended_early) {
    say(fmt::format("the lock '{}' was lost: {}. The command was {}.", name, reason,
                    o.what.not_begun != 0 ? "not started" : "ended"));
    return end_of_program{exit_lost, {}};
  }
  if (result == release_result::already_lost) {
    auto const* const lost_now = lost();
    say(fmt::format("the lock '{}' was lost before the command had ended: {}",
                    lost_now == nullptr ? options_.name : lost_now->name(), why_lost(o)));
    return end_of_program{exit_lost, {}};
  }
  if (result == release_result::in_doubt) {
    std::lock_guard const guard(trouble_mutex_);
    say(fmt::format("'{}' may not have been given back: {}; it is free in {} at the latest", options_.name,
                    trouble_.empty() ? "the database does not answer" : trouble_,
                    format_duration(mutex_options_.ttl)));
  }
  return {};
}

std::string session::why_lost(outcome const& o) const {
  auto const* const lost_one = lost();
  auto const& lock = lost_one == nullptr ? locks_.front() : *lost_one;
  if (at_hard_limit(lock))
    return fmt::format("--hard-limit {} was near, and the command's grace of {} had to fit in before it",
                       format_duration(*options_.hard_limit), format_duration(options_.time_to_end()));
  auto details = lock.loss_details();
  if (details.empty()) {
    std::lock_guard const guard(trouble_mutex_);
    details = trouble_;
  }
  auto const loss = lock.loss();
  auto const late = [&o] {
    return fmt::format("it was not renewed in time; {} stopped or suspended",
                       o.what.why == ending::trust_ends ? "rowlock was" : "this machine was");
  };
  // The guardian has ended the command before trust ended here. What does not renew, and meets no hindrance,
  // did not run.
  if (!loss) return details.empty() ? late() : "it could not be renewed in time" + in_parentheses(details);
  switch (*loss) {
    case loss_reason::revoked:
      return "an operator asked for it back (rowlock release --force)";
    case loss_reason::taken_over:
      return "another owner has it";
    case loss_reason::row_gone:
      return "its row, or the file that it was in, is gone";
    case loss_reason::suspended:
      return late();
    case loss_reason::session_ended:
      return "the database session that held it has ended" + in_parentheses(details);
    case loss_reason::read_only:
      return "the server takes no writes any more" + in_parentheses(details);
    case loss_reason::row_locked:
    case loss_reason::expired:
    case loss_reason::database_unreachable:
      return "it could not be renewed in time" + in_parentheses(details);
    default:
      return to_string(*loss);
  }
}

/// When the statement was sent that took the lock, by the trust that it gave: its reply may have come much
/// later.
boot_time_point session::asked_at() const {
  auto const now = boot_clock::now();
  if (!options_.hard_limit) return now;
  auto const limit = *options_.hard_limit;
  auto const ttl = mutex_options_.ttl;
  return trusted_until().value_or(now) -
         std::min(ttl - ttl / 10, limit - limit / 50 - std::min(limit, ttl) / 10);
}

/// Whether trust could not be prolonged any more: it ends a fiftieth of the limit and a tenth of the ttl
/// before the limit itself, counted from when the lock was asked for. Another tenth for what is rounded.
bool session::at_hard_limit(covering_lock const& lock) const {
  auto const loss = lock.loss();
  auto const trusted = lock.trusted_until();
  if (!options_.hard_limit || !trusted || (loss && *loss != loss_reason::expired)) return false;
  auto const limit = *options_.hard_limit;
  return *trusted >= asked_at_ + limit - limit / 50 - std::min(limit, mutex_options_.ttl) / 5;
}

/// Something of the command still runs and is not ours to end: the lock must not be given to anybody before
/// it has to be, so this process ends without giving it back.
void session::leave_to_expire(outcome const& o) const {
  say(
      fmt::format("{} of the command for '{}' could not be ended (another user's, stuck in the kernel, or "
                  "not shown by /proc). The lock was not given back; it is free {}, and then does not cover "
                  "what still runs",
                  o.what.left == 1 ? "a process" : fmt::format("{} processes", o.what.left), options_.name,
                  !traits_of(mutex_options_).has_expiry
                      ? "now, with its connection"
                      : fmt::format("in {} at the latest", format_duration(mutex_options_.ttl))));
  std::fflush(nullptr);
  ::_exit(exit_lost);
}

}  // namespace rowlock::tool

#include "manager/member.hpp"

#include <fmt/format.h>

#include "holding/loss_reason_of.hpp"
#include "holding/outcome.hpp"
#include "manager/manager.hpp"
#include "manager/releasing.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/quorum_member.hpp"
#include "waiting/local_queue.hpp"

namespace rowlock::managing {

using strategies::quorum_member;

term_id const& granted_vote::term() const noexcept { return hold_->facts().term; }
fencing_token granted_vote::token() const noexcept { return hold_->facts().token; }
boot_time_point granted_vote::sent_at() const noexcept { return hold_->facts().sent_at; }
boot_time_point granted_vote::trusted_until() const noexcept { return hold_->trusted_until(); }
bool granted_vote::valid() const noexcept { return hold_->valid(); }
std::optional<loss_reason> granted_vote::loss() const noexcept { return hold_->loss(); }
void granted_vote::forget_at_least() noexcept { hold_->forget_at_least(); }

boot_time_point trust_of_vote(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept {
  return holding::trust_after(sent_at, lasts);
}

std::string const& member::describe() const noexcept { return manager_->parts().database.describe(); }
std::chrono::milliseconds member::reply_timeout() const noexcept {
  return manager_->parts().options.reply_timeout;
}
std::chrono::milliseconds member::release_timeout() const noexcept {
  return manager_->parts().options.release_timeout;
}
std::string member::database_id() const { return manager_->parts().database.id(); }
std::string member::server() const {
  auto const which = manager_->parts().database.server();
  return which.substr(0, which.rfind(':'));  // the database's own number or name comes last
}

void member::check(std::string name, mutex_options o) const {
  (void)manager_->spec(std::move(name), std::move(o), false, std::nullopt, true);
}

member::answer member::take(std::string name, mutex_options o, quorum_hook& hook,
                            std::optional<std::chrono::steady_clock::time_point> deadline,
                            std::stop_token stop) const {
  auto const spec = manager_->spec(std::move(name), std::move(o), false, std::nullopt, true);
  auto came = manager_->acquire(spec, {.one_attempt = !deadline, .deadline = deadline, .quorum = &hook},
                                std::move(stop));
  answer out{{}, came.why, std::move(came.holder)};
  if (came.won && came.won->share_term()) out.granted = granted_vote(std::move(came.won));
  return out;
}

release_result member::release(granted_vote const& v) const noexcept { return manager_->release(v.hold_); }

bool member::is_waited_for(granted_vote const& v) const {
  if (v.hold_->had_queue()) return true;
  auto& line = waiting::local_queue::of_this_process();
  return line.is_waited_for({manager_->parts().database.number(), v.hold_->facts().name});
}

bool member::confirm(granted_vote const& v, fencing_token token, std::string const& epoch_id,
                     std::chrono::milliseconds lasts) const {
  auto& in = manager_->parts();
  auto const& h = v.hold_;
  base::calls::scope const here(in.under_way);
  auto const& f = h->facts();
  if (!h->share_term() || !h->valid()) return false;
  if (in.database.gone(f.server)) {
    in.expiries.report_lost(h, loss_reason::row_gone);
    return false;
  }
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  auto const& book = in.database.statements();
  auto sent_at = boot_clock::now();
  bool const confirmed = sessions::retry_deadlocks(in.events, f.name, deadline, [&] {
    sent_at = boot_clock::now();
    return quorum_member::confirm(*loan, book, {f.name, f.term}, token, epoch_id, lasts, deadline);
  });
  if (confirmed) {
    if (h->prolong(sent_at, lasts)) return true;
    if (in.expiries.report_lost(h, h->why_expired())) releasing::give_back_lost(in, *h);
    return false;
  }
  auto const its = quorum_member::read(*loan, book, false, deadline).record;
  if (!its.votes || its.epoch_id != epoch_id)
    throw error(errc::not_voting,
                fmt::format("'{}': {} does not vote in the epoch in which it is held any more", f.name,
                            in.database.describe()));
  auto const seen = holding::outcome_of(in.tables, *loan, *h, deadline);
  if (seen.lost) {
    in.expiries.report_lost(h, *seen.lost);
    return false;
  }
  throw error(errc::conflict,
              fmt::format("'{}' could not be renewed just now; it is held as before", f.name));
}

namespace {

/// Runs `question` on a session, by the deadline of a reply.
template <class Question>
auto ask(manager& m, Question const& question) {
  auto& in = m.parts();
  base::calls::scope const here(in.under_way);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  return question(in, *loan, deadline);
}

}  // namespace

bool member::is_revoked(granted_vote const& v) const {
  return ask(*manager_, [&](engine& in, backend::connection& c, boot_time_point deadline) {
    return holding::loss_reason_of(in.tables, c, v.hold_->facts(), deadline) == loss_reason::revoked;
  });
}

strategies::member_state member::read(bool with_highest) const {
  return ask(*manager_, [&](engine& in, backend::connection& c, boot_time_point deadline) {
    return quorum_member::read(c, in.database.statements(), with_highest, deadline);
  });
}

bool member::write(std::string const& former, strategies::member_record const& r) const {
  return ask(*manager_, [&](engine& in, backend::connection& c, boot_time_point deadline) {
    return quorum_member::write(c, in.database.statements(), former, r, deadline);
  });
}

void member::raise_tokens(fencing_token highest) const {
  ask(*manager_, [&](engine& in, backend::connection& c, boot_time_point deadline) {
    quorum_member::raise_tokens(c, in.database.statements(), highest, deadline);
  });
}

std::vector<lock_info> member::list(list_options const& o) const { return manager_->list(o); }
bool member::revoke(std::string const& name, revoke_mode mode) const {
  return manager_->revoke(name, mode, {});
}

}  // namespace rowlock::managing

#include "process/row_locker.hpp"

#include <rowlock/error.hpp>

#include "strategy/tokens.hpp"

namespace rowlock::process {
namespace {

std::optional<holder_info> who_holds(engine& e, backend::connection& session, std::string const& name) {
  try {
    auto found = e.row_locks.holders(session, name, e.reply_deadline());
    if (!found.empty()) return std::move(found.front().by);
  } catch (error const&) {  // it is busy all the same
  }
  return std::nullopt;
}

/// On a session of its own that is there no longer than this takes: jobs that hold one each should fit into a
/// server's limit. The first session is asked afterwards whether it still lives: then it had the lock while
/// the token was drawn, and nobody else can have drawn one in between.
fencing_token draw_token(engine& e, backend::connection& holder, std::string const& name) {
  fencing_token token;
  {
    auto const drawing = e.db.open(e.reply_deadline());
    token = strategies::tokens(e.db.statements()).draw(*drawing, name, e.reply_deadline());
  }
  e.row_locks.ping(holder, e.reply_deadline());
  return token;
}

}  // namespace

std::optional<row_grant> lock_row(engine& e, lock_spec const& spec, std::optional<boot_time_point> deadline,
                                  std::stop_token stop, std::optional<holder_info>& holder) {
  auto session = e.row_sessions.borrow(e.reply_deadline());
  strategies::row_lock::patience const patience{deadline.has_value(), deadline.value_or(e.reply_deadline()),
                                                std::move(stop), e.options.reply_timeout};
  strategies::row_lock::locked got;
  try {
    got = e.row_locks.take(*session, spec.name, patience);
  } catch (error const& why) {
    if (why.reason() != errc::row_locked) throw;
    if ((*session).usable()) holder = who_holds(e, *session, spec.name);
    return std::nullopt;
  }
  row_grant grant{{std::move(session), got.anchor_is_old}, {}};
  if (!spec.fencing) return grant;
  try {
    grant.token = draw_token(e, *grant.holding.session, spec.name);
  } catch (...) {
    (*grant.holding.session).close();  // and with it the lock
    throw;
  }
  return grant;
}

}  // namespace rowlock::process

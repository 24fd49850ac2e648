#include "manager/row_locker.hpp"

#include <rowlock/error.hpp>

#include "strategy/tokens.hpp"

namespace rowlock::managing {
namespace {

/// Without an anchor there was nobody who could hold it: a transaction is just making one.
refusal look_closer(engine& e, backend::connection& session, std::string const& name) {
  refusal r;
  try {
    auto found = e.row_locks.holders(session, name, e.reply_deadline());
    if (!found.empty())
      r.holder = std::move(found.front().by);
    else
      r.by_nobody = !e.rows.read(session, name, e.reply_deadline());
  } catch (error const&) {  // it is busy all the same
  }
  return r;
}

/// On a session of its own that is there no longer than this takes: jobs that hold one each should fit into a
/// server's limit. The first session is asked afterwards whether it still lives: then it had the lock while
/// the token was drawn, and nobody else can have drawn one in between.
fencing_token draw_token(engine& e, backend::connection& holder, std::string const& name) {
  fencing_token token;
  {
    auto const drawing = e.database.open(e.reply_deadline());
    token = strategies::tokens(e.database.statements()).draw(*drawing, name, e.reply_deadline());
  }
  e.row_locks.ping(holder, e.reply_deadline());
  return token;
}

row_grant granted(engine& e, lock_spec const& spec, sessions::connection_pool::loan session,
                  strategies::row_lock::locked const& got) {
  row_grant grant{{std::move(session), got.anchor_is_old}, {}};
  if (!spec.fencing) return grant;
  try {
    grant.token = draw_token(e, *grant.anchor.session, spec.name);
  } catch (...) {
    (*grant.anchor.session).close();  // and with it the lock
    throw;
  }
  return grant;
}

}  // namespace

std::optional<row_grant> try_row_lock(engine& e, lock_spec const& spec,
                                      std::optional<boot_time_point> deadline, std::stop_token const& stop,
                                      refusal& why_not) {
  auto const place_by = deadline.value_or(boot_time_point::max());
  for (;;) {
    auto session = e.session_pool.borrow(e.reply_deadline(), stop, place_by);
    std::stop_source give_way;  // by the caller, or because others need the session
    std::stop_callback const forward(stop, [&give_way] { give_way.request_stop(); });
    strategies::row_lock::patience const patience{deadline.has_value(), deadline.value_or(e.reply_deadline()),
                                                  give_way.get_token(), e.options.reply_timeout};
    strategies::row_lock::locked got;
    try {
      std::optional<sessions::connection_pool::waiting> turn;
      if (deadline) turn.emplace(e.session_pool, give_way);
      got = e.row_locks.take(*session, spec.name, patience);
    } catch (error const& why) {
      if (why.reason() != errc::row_locked) throw;
      bool const over = !deadline || boot_clock::now() >= *deadline;
      if (give_way.stop_requested() && !stop.stop_requested() && !over) continue;
      if ((*session).usable()) why_not = look_closer(e, *session, spec.name);
      return std::nullopt;
    }
    return granted(e, spec, std::move(session), got);
  }
}

}  // namespace rowlock::managing

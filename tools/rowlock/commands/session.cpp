#include "commands/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stop_token>
#include <string_view>

#include "commands/waiting_line.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "holder.hpp"
#include "process/interrupt_watch.hpp"

namespace rowlock::tool {
namespace {

bool environment_is(char const* name, std::string const& value) {
  char const* set = std::getenv(name);
  return set != nullptr && value == set;
}

/// Whether this is (of) the command of a `rowlock run` for that name.
bool runs_under(std::string const& name) { return environment_is("ROWLOCK_NAME", name); }

/// The same for the same address, schema and prefix: 64-bit FNV-1a, which two programs compute alike.
std::string fingerprint(database const& db) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::string_view const part :
       {std::string_view(db.url), std::string_view(db.schema), std::string_view(db.table_prefix)}) {
    for (char const c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash *= 0x100000001b3;  // as if a zero byte followed: "a", "b" is not "ab", ""
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

session::session(database const& db, run_options const& options, mutex_options how,
                 signal_setup const& signals, guard& g)
    : db_(db), options_(options), mutex_options_(std::move(how)), guard_(g), signal_fd_(signals.open()) {
  manager_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  o.connections = 1;  // beside the keeper's: fifty jobs at once should fit into a server's default limit
  o.row_lock_connections = 1;
  o.how = mutex_options_.how.value_or(o.how);
  o.on_event = [this](event const& e) { hear(e); };
  manager_ = std::make_unique<lock_manager>(db.url, std::move(o));
}

void session::hear(event const& e) {
  if (e.kind == event_kind::renewed && e.trusted_until) guard_.renewed(*e.trusted_until);
  if (e.kind != event_kind::error && e.kind != event_kind::renewed) return;
  std::lock_guard const lock(trouble_mutex_);
  trouble_ = e.message;  // of a renewal none: what was before is over
}

std::optional<end_of_program> session::take() {
  {
    // Nothing is held yet: a signal ends the program on the spot.
    interrupt_watch const watch(signal_fd_.get(), [](int signal) { die_by(signal); });
    connect();
  }
  std::stop_source stop;
  std::atomic<int> interrupted = 0;
  std::optional<acquisition> got;
  {
    interrupt_watch const watch(signal_fd_.get(), [&](int signal) {
      interrupted = signal;
      stop.request_stop();
    });
    got = acquire(stop.get_token());
  }
  if (interrupted != 0)
    return end_of_program{128 + interrupted, interrupted};  // `got` gives back what it has
  if (!*got) return not_had(*got);
  lock_.emplace(*std::move(*got));
  taken_at_ = boot_clock::now();
  return {};
}

void session::connect() try {
  with_standard_file(db_, [this] { manager_->connect(); });
} catch (error const& e) {
  // Others use all connections just now: that passes, and can be waited for like the lock.
  if (e.reason() != errc::too_many_connections || options_.no_wait) throw;
}

acquisition session::acquire(std::stop_token stop) try {
  if (!options_.no_wait) return wait_for(std::move(stop));
  auto got = manager_->make_mutex(options_.name, mutex_options_).try_acquire();
  refuse_own(got);
  return got;
} catch (error const& e) {
  if (!options_.wait || !e.retryable()) throw;
  throw failure(exit_busy, fmt::format("'{}' was not had within {}: {}", options_.name,
                                       format_duration(*options_.wait), e.what()));
}

acquisition session::wait_for(std::stop_token stop) {
  auto const deadline =
      std::chrono::steady_clock::now() + options_.wait.value_or(std::chrono::milliseconds{0});
  waiting_line line(options_.name);
  auto how = mutex_options_;
  if (line.wanted())
    how.retry.policy = [&line](int made, holder_info const* holder) {
      line.show(holder);
      return usual_wait(made, holder);
    };
  auto m = manager_->make_mutex(options_.name, how);
  if (line.wanted() || runs_under(options_.name)) {
    // Once without waiting, which says who has it: also with row_lock, which waits in the server.
    try {
      auto got = m.try_acquire();
      if (got) return got;
      refuse_own(got);
      line.show(got.holder() ? &*got.holder() : nullptr);
    } catch (error const& e) {
      if (!e.retryable()) throw;  // what can be ridden out is, below
    }
  }
  if (!options_.wait) return m.acquire(std::move(stop));
  auto const left = deadline - std::chrono::steady_clock::now();
  return m.try_acquire_for(std::max(left, left.zero()), std::move(stop));
}

/// Who runs under the lock that he asks for waits for himself. The token tells that it is that very lock, and
/// not one of the same name in another database. Of a row lock no database tells the token: there the address
/// is compared.
void session::refuse_own(acquisition const& a) const {
  if (a || !runs_under(options_.name)) return;
  bool const same = mutex_options_.how == strategy::row_lock
                        ? environment_is("ROWLOCK_DATABASE", fingerprint(db_))
                        : a.holder() && a.holder()->token &&
                              environment_is("ROWLOCK_TOKEN", std::to_string(a.holder()->token.value));
  if (!same) return;
  throw failure(
      exit_usage,
      fmt::format(
          "this runs under '{}' already (ROWLOCK_NAME), and would wait for itself for ever: leave out the "
          "inner `rowlock run`, or take another name",
          options_.name));
}

end_of_program session::not_had(acquisition const& a) const {
  if (a.status() == acquire_status::contended) {
    auto const within = options_.wait ? " within " + format_duration(*options_.wait) : std::string();
    say(fmt::format(
        "'{}' is held by nobody, but was not had{}: a transaction has its row, or the SQLite file, "
        "locked. Try again",
        options_.name, within));
    return {exit_busy, {}};
  }
  auto const& holder = a.holder();
  auto const who =
      holder ? "held by " + describe(*holder) : std::string("in use by a transaction of somebody else");
  if (options_.no_wait)
    say(fmt::format("'{}' is {}", options_.name, who));
  else
    say(fmt::format("'{}' was not had within {}: it is {}", options_.name,
                    format_duration(options_.wait.value_or(std::chrono::milliseconds{0})), who));
  return {exit_busy, {}};
}

outcome session::guard_command() {
  guard_.start(options_.name, lock_->token(), lock_->term().value, lock_->trusted_until().value_or(never),
               mutex_options_.how == strategy::row_lock ? fingerprint(db_) : "");
  std::stop_callback const on_loss(lock_->loss_token(), [this] { lock_lost(); });
  return guard_.wait(signal_fd_.get());
}

/// Trust that the library has ended already (taken over, row gone) leaves no time for a grace; otherwise the
/// row is still ours until its expiry. A row lock is gone when we hear of it.
void session::lock_lost() noexcept { guard_.end(lock_->trusted_until().value_or(boot_clock::now())); }

std::optional<end_of_program> session::give_back(outcome const& o) {
  if (o.what.left > 0) leave_to_expire(o);
  bool const ended_early = o.what.why != ending::by_itself || lock_->loss();
  auto const reason = why_lost(o);  // before release(), which ends trust
  auto const result = lock_->release();
  if (o.from == outcome::source::guardian_gone) {
    say(fmt::format("the guardian process of '{}' was killed, so the command was ended, too", options_.name));
    return end_of_program{exit_bug, {}};
  }
  if (ended_early) {
    say(fmt::format("the lock '{}' was lost: {}. The command was ended.", options_.name, reason));
    return end_of_program{exit_lost, {}};
  }
  if (result == release_result::already_lost) {
    say(fmt::format("the lock '{}' was lost before the command had ended: {}", options_.name, why_lost(o)));
    return end_of_program{exit_lost, {}};
  }
  if (result == release_result::in_doubt)
    say(fmt::format(
        "'{}' may not have been given back, the database does not answer; it is free in {} at the latest",
        options_.name, format_duration(mutex_options_.ttl)));
  return {};
}

std::string session::why_lost(outcome const& o) const {
  std::lock_guard const lock(trouble_mutex_);
  auto const trouble = trouble_.empty() ? "" : fmt::format(" ({})", trouble_);
  auto const loss = lock_->loss();
  if (at_hard_limit())
    return fmt::format("--hard-limit {} was reached", format_duration(*options_.hard_limit));
  if (!loss || *loss == loss_reason::expired || *loss == loss_reason::database_unreachable)
    return trouble_.empty()
               ? fmt::format("it was not renewed in time; {} stopped or suspended",
                             o.what.why == ending::trust_ends ? "rowlock was" : "this machine was")
               : "it could not be renewed in time" + trouble;
  switch (*loss) {
    case loss_reason::revoked:
      return "an operator asked for it back (rowlock release --force)";
    case loss_reason::taken_over:
      return "another owner has it";
    case loss_reason::row_gone:
      return "its row, or the file that it was in, is gone";
    case loss_reason::session_ended:
      return "the database session that held it has ended" + trouble;
    default:
      return to_string(*loss);
  }
}

/// Whether trust could not be prolonged any more: it ends a fiftieth of the limit and a tenth of the ttl
/// before the limit itself, reckoned from when the lock was asked for, which was a moment before it was had.
bool session::at_hard_limit() const {
  auto const loss = lock_->loss();
  auto const trusted = lock_->trusted_until();
  if (!options_.hard_limit || !trusted || (loss && *loss != loss_reason::expired)) return false;
  auto const limit = *options_.hard_limit;
  return *trusted >= taken_at_ + limit - limit / 50 - std::min(limit, mutex_options_.ttl) / 5;
}

/// Something of the command still runs and is not ours to end: the lock must not be given to anybody before
/// it has to be, so this process ends without giving it back.
void session::leave_to_expire(outcome const& o) const {
  say(
      fmt::format("{} of the command for '{}' could not be ended (another user's, stuck in the kernel, or "
                  "not shown by /proc). The lock was not given back; it is free {}, and is then not held by "
                  "what still runs",
                  o.what.left == 1 ? "a process" : fmt::format("{} processes", o.what.left), options_.name,
                  mutex_options_.how == strategy::row_lock
                      ? "now, with its connection"
                      : fmt::format("in {} at the latest", format_duration(mutex_options_.ttl))));
  std::fflush(nullptr);
  ::_exit(exit_lost);
}

}  // namespace rowlock::tool

#include "commands/taking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stop_token>
#include <string_view>

#include "commands/waiting_line.hpp"
#include "duration.hpp"
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

}  // namespace

// 64-bit FNV-1a.
std::string fingerprint(database const& db) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::string_view const part :
       {std::string_view(db.url), std::string_view(db.schema), std::string_view(db.table_prefix)}) {
    for (char const c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash *= 0x100000001b3;  // as if a zero byte followed: "a", "b" is not "ab", ""
  }
  return fmt::format("{:016x}", hash);
}

void waiting_options::add_to(CLI::App& command) {
  auto* by_duration = add_duration(command, "--wait", wait, "Wait this long at most; default: for ever");
  auto* seconds =
      command
          .add_option_function<std::string>(
              "-w,--wait-seconds",
              [this](std::string const& text) {
                wait = parse_seconds(text);
                if (!wait)
                  throw CLI::ValidationError(
                      "-w", fmt::format("'{}' is not a number of seconds, such as 10 or 0.5", text));
              },
              "The same in seconds, as flock(1) has it: 10, 0.5")
          ->type_name("SECONDS")
          ->excludes(by_duration);
  auto* once =
      command.add_flag("-n,--no-wait", no_wait, "Try once")->excludes(by_duration)->excludes(seconds);
  command
      .add_flag("--fair", fair,
                "Line up behind all that wait for NAME, also if it is free just now; they have to say "
                "--fair, too (not behind a pooler in transaction mode, nor on Galera)")
      ->excludes(once);
  command
      .add_option("-E,--conflict-exit-code", conflict_status,
                  "Exit status if another owner holds the lock, or the wait is over; default: 75")
      ->type_name("STATUS")
      ->check(CLI::Range(0, 255));
}

void share_options::add_to(CLI::App& command) {
  auto* reads = command.add_flag(
      "--shared", shared, "Read: run beside others that say --shared. A writer says --strategy shared");
  auto* limit = command
                    .add_option("--permits", permits,
                                "Run beside others that say so, as long as no more than N run at a time")
                    ->type_name("N")
                    ->check(CLI::Range(std::int64_t{1}, std::int64_t{2147483646}))
                    ->excludes(reads);
  command.add_option("--units", units, "Count for K of the --permits; default: 1")
      ->type_name("K")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{2147483646}))
      ->needs(limit);
}

taking::taking(database const& db, lock_manager& manager, std::vector<std::string> names, mutex_options how,
               waiting_options const& options, share_options const& share, signal_setup const& signals)
    : db_(db),
      manager_(manager),
      names_(std::move(names)),
      how_(std::move(how)),
      options_(options),
      share_(share),
      signal_fd_(signals.open()) {
  how_.fair = options.fair;
}

taking::taking(database const& first, lock_manager& manager, quorum& q, std::string name, mutex_options how,
               waiting_options const& options, signal_setup const& signals)
    : db_(first),
      manager_(manager),
      quorum_(&q),
      names_({std::move(name)}),
      how_(std::move(how)),
      options_(options),
      share_(),
      signal_fd_(signals.open()) {
  how_.fair = options.fair;
}

std::vector<covering_lock> taking::take(invocation const& call) {
  std::vector<covering_lock> locks;
  auto const failed = reported(call, [&] {
    locks = attempt();
    return end_of_program{};
  });
  if (failed.status != exit_ok) ended_ = failed;
  if (ended_.status == exit_busy) ended_.status = options_.conflict_status;
  return locks;
}

std::vector<covering_lock> taking::attempt() {
  {
    // Nothing is held yet: a signal ends the program on the spot.
    interrupt_watch const watch(signal_fd_.get(), [](int signal) { die_by(signal); });
    connect();
  }
  std::stop_source stop;
  std::atomic<int> interrupted = 0;
  attempted got;
  {
    interrupt_watch const watch(signal_fd_.get(), [&](int signal) {
      interrupted = signal;
      stop.request_stop();
    });
    got = acquire(stop.get_token());
  }
  if (interrupted != 0) {
    ended_ = {128 + interrupted, interrupted};
    return {};  // `got` gives back what it has
  }
  if (got.locks.empty()) ended_ = {say_not_had(got), {}};
  return std::move(got.locks);
}

void taking::connect() try {
  if (quorum_ != nullptr) return;  // a minority may be out of reach
  with_standard_file(db_, [this] { manager_.connect(); });
} catch (error const& e) {
  // Others use all connections just now: that passes, and can be waited for like the lock.
  if (options_.patient && e.retryable()) return;
  if (e.reason() != errc::too_many_connections || options_.no_wait) throw;
}

taking::attempted taking::as_attempted(acquisition a) const {
  attempted out{{}, a.status(), a.holder(), names_.front()};
  if (a) out.locks.emplace_back(*std::move(a));
  return out;
}

taking::attempted taking::as_attempted(acquisition_of_all a) {
  attempted out{{}, a.status(), a.holder(), a.busy_name()};
  if (a)
    for (auto& one : *a) out.locks.emplace_back(std::move(one));
  return out;
}

acquisition taking::one(bool wait, std::optional<std::chrono::nanoseconds> left, mutex_options const& how,
                        std::stop_token stop) {
  auto const& name = names_.front();
  if (share_.shared) {
    auto m = manager_.make_shared_mutex(name, how);
    if (!wait) return m.try_acquire_shared();
    return left ? m.try_acquire_shared_for(*left, std::move(stop)) : m.acquire_shared(std::move(stop));
  }
  if (share_.permits) {
    auto s = manager_.make_semaphore(name, share_.permits, how);
    if (!wait) return s.try_acquire(share_.units);
    return left ? s.try_acquire_for(*left, share_.units, std::move(stop))
                : s.acquire(share_.units, std::move(stop));
  }
  auto m = manager_.make_mutex(name, how);
  if (!wait) return m.try_acquire();
  return left ? m.try_acquire_for(*left, std::move(stop)) : m.acquire(std::move(stop));
}

taking::attempted taking::of_majority(bool wait, std::optional<std::chrono::nanoseconds> left,
                                      mutex_options const& how, std::stop_token stop) {
  auto m = quorum_->make_mutex(names_.front(), how);
  auto got = !wait  ? m.try_acquire()
             : left ? m.try_acquire_for(*left, std::move(stop))
                    : m.acquire(std::move(stop));
  attempted out{{}, got.status(), got.holder(), names_.front()};
  if (got) out.locks.emplace_back(*std::move(got));
  return out;
}

taking::attempted taking::once() {
  if (quorum_ != nullptr) return of_majority(false, std::nullopt, how_, {});
  if (names_.size() == 1) return as_attempted(one(false, std::nullopt, how_, {}));
  return as_attempted(manager_.try_acquire_all(names_, how_));
}

taking::attempted taking::until(std::optional<std::chrono::nanoseconds> left, mutex_options const& how,
                                std::stop_token stop) {
  if (quorum_ != nullptr) return of_majority(true, left, how, std::move(stop));
  if (names_.size() > 1)
    return as_attempted(left ? manager_.try_acquire_all_for(names_, *left, how, std::move(stop))
                             : manager_.acquire_all(names_, how, std::move(stop)));
  return as_attempted(one(true, left, how, std::move(stop)));
}

taking::attempted taking::acquire(std::stop_token stop) try {
  if (!options_.no_wait) return wait_for(std::move(stop));
  auto got = once();
  refuse_own(got);
  return got;
} catch (error const& e) {
  if (!options_.wait || !e.retryable()) throw;
  throw failure(exit_busy, fmt::format("'{}' could not be taken within {}: {}", names_.front(),
                                       format_duration(*options_.wait), e.what()));
}

bool taking::runs_under_one() const { return std::any_of(names_.begin(), names_.end(), runs_under); }

taking::attempted taking::wait_for(std::stop_token stop) {
  auto const deadline =
      std::chrono::steady_clock::now() + options_.wait.value_or(std::chrono::milliseconds{0});
  waiting_line line(names_.front());
  auto how = how_;
  if (line.wanted()) how.on_wait = [&line](holder_info const* holder) { line.show(holder); };
  if ((line.wanted() && traits_of(how).waits_in_server) || runs_under_one()) {
    // Once without waiting, which says who has it.
    try {
      auto got = once();
      if (!got.locks.empty()) return got;
      refuse_own(got);
      line.show(got.holder ? &*got.holder : nullptr);
    } catch (error const& e) {
      if (!e.retryable()) throw;  // what can be ridden out is, below
    }
  }
  std::optional<std::chrono::nanoseconds> left;
  if (options_.wait)
    left = std::max<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(),
                                              std::chrono::nanoseconds{0});
  return until(left, how, std::move(stop));
}

/// A command that asks for the lock under which it runs would wait for itself. The token shows that it is
/// exactly that lock, and not one of the same name in another database. For a row lock no database tells the
/// token: there the address is compared.
void taking::refuse_own(attempted const& a) const {
  if (!a.locks.empty() || !runs_under(a.busy)) return;
  bool const same = traits_of(how_).owns_session
                        ? environment_is("ROWLOCK_DATABASE", fingerprint(db_))
                        : a.holder && a.holder->token &&
                              environment_is("ROWLOCK_TOKEN", std::to_string(a.holder->token.value));
  if (!same) return;
  throw failure(
      exit_usage,
      fmt::format(
          "this runs under '{}' already (ROWLOCK_NAME), and would wait for itself for ever: leave out the "
          "inner `rowlock run`, or take another name",
          a.busy));
}

std::string taking::why_quarantined() const try {
  auto const now = quarantine_of(db_);
  auto const what = now ? quarantine_in_words(*now) : "";
  return what.empty() ? "the database granted none just now. Try again" : what;
} catch (error const& e) {
  return fmt::format("the database granted none just now ({})", e.what());
}

exit_status taking::say_not_had(attempted const& a) const {
  auto const& name = a.busy.empty() ? names_.front() : a.busy;
  if (a.status == acquire_status::done) {
    auto const& by = a.holder;
    say(fmt::format("'{}' was done{}{}{}", name, by ? " by " + owner_of(*by) : "",
                    by && !since(*by).empty() ? " at " + since(*by) : "",
                    by && !by->note.empty() ? fmt::format(" ({})", by->note) : ""));
    return exit_ok;
  }
  if (a.status == acquire_status::contended) {
    auto const within = options_.wait ? " within " + format_duration(*options_.wait) : std::string();
    auto const more = names_.size() > 1 ? fmt::format(" and {} more", names_.size() - 1) : std::string();
    say(fmt::format(
        "'{}'{} has no holder, but could not be taken{}: a transaction has its row, or the SQLite file, "
        "locked. Try again",
        name, more, within));
    return exit_busy;
  }
  if (a.status == acquire_status::quarantined) {
    say(fmt::format("'{}' could not be taken{}: {}", name,
                    options_.wait ? " within " + format_duration(*options_.wait) : "", why_quarantined()));
    return exit_busy;
  }
  auto const who = a.holder ? "held by " + describe(*a.holder) : std::string("in use by another transaction");
  if (options_.no_wait)
    say(fmt::format("'{}' is {}", name, who));
  else
    say(fmt::format("'{}' could not be taken within {}: it is {}", name,
                    format_duration(options_.wait.value_or(std::chrono::milliseconds{0})), who));
  return exit_busy;
}

}  // namespace rowlock::tool

#include <rowlock/quarantine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <rowlock/error.hpp>
#include <set>

#include "base/boot_waiter.hpp"
#include "base/hand_on.hpp"
#include "sessions/database.hpp"
#include "strategy/quarantine.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

using backend::value;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

manager_options tables(quarantine_options const& o) {
  manager_options m;
  m.table_prefix = o.table_prefix;
  m.schema = o.schema;
  m.connections = 1;
  return m;
}

// A server can keep for 100 ms what it tells of transactions.
constexpr auto between_looks = 150ms;

/// A session of an operator's.
///
/// A freeze is in force once, in this order, all pulses grant later, those who can have read another pulse
/// before are gone, and still all pulses grant later. lib/doc/interleavings.md
class operation {
 public:
  operation(connection_source const& source, quarantine_options const& o, milliseconds patience)
      : database_(source.implementation(), tables(o)),
        reply_timeout_(o.reply_timeout),
        give_up_at_(boot_clock::now() + patience) {
    if (!book().pulses())
      throw error(
          errc::unsupported,
          fmt::format("{}: this database has no quarantine, and so no freeze: it forgets no lock that "
                      "outlives its machine",
                      database_.describe()));
    session_ = database_.open(deadline());
  }

  /// Changes what is set, and the pulses by that: in one transaction.
  void set(char const* statement, value const& to, bool restored = false) {
    repeat([&] {
      strategies::in_transaction(*session_, book(), deadline(), [&] {
        run(statement, {to});
        if (restored) return run("pulse_forget"), true;
        run("pulse_thaw");
        run("pulse_freeze");
        return true;
      });
      return 0;
    });
  }

  quarantine_state look() {
    auto const seen =
        session_->execute(book().at("pulse_look"), std::vector<value>{std::int64_t{0}}, deadline())
            .rows.at(0);
    quarantine_state now;
    now.left.reset();
    if (!backend::is_null(seen.at(1))) now.left = std::max(0ms, milliseconds(backend::as_int(seen.at(1))));
    now.frozen = milliseconds(backend::as_int(seen.at(2)));
    now.enabled = backend::as_int(seen.at(3)) != 0;
    return now;
  }

  /// Begins the quarantine that is due.
  quarantine_state settle() {
    strategies::settle_quarantine(*session_, book(), 0ms, deadline());
    return look();
  }

  freeze_result wait_until_in_force(freeze_options const& o, std::stop_token const& stop) {
    do {
      auto left = wait_for_those_before(o, stop);
      if (!left.empty()) return {false, std::move(left)};
    } while (repeat([&] { return run(o.restored ? "pulse_forget" : "pulse_freeze"); }) > 0);
    // Until then a thread can hand a lock on, within its process, that it took just before.
    waiter_.wait_until(boot_clock::now() + base::closed_for);
    if (look().frozen == 0ms)
      throw error(errc::failed,
                  fmt::format("{}: the freeze was over before it was in force", database_.describe()));
    return {true, {}};
  }

 private:
  backend::statement_book const& book() const { return database_.statements(); }
  boot_time_point deadline() const { return boot_clock::now() + reply_timeout_; }

  std::int64_t run(char const* statement, std::vector<value> const& parameters = {}) {
    return session_->execute(book().at(statement), parameters, deadline()).affected;
  }

  /// A program's transaction can have a pulse locked, which it has added.
  std::int64_t repeat(std::function<std::int64_t()> const& what) {
    for (;;) try {
        return what();
      } catch (error const& e) {
        bool const passes = e.reason() == errc::row_locked || e.reason() == errc::conflict;
        if (!passes || boot_clock::now() >= give_up_at_) throw;
        waiter_.wait_until(boot_clock::now() + between_looks);
      }
  }

  struct others {
    std::set<std::string> which;
    std::vector<session_in_the_way> sessions;
    bool shows_observer = false;
  };

  /// Only those in `among`, if that is given.
  others in_the_way(backend::connection& observer, std::set<std::string> const* among) {
    waiter_.wait_until(boot_clock::now() + between_looks);
    others now;
    std::set<std::int64_t> told;
    std::vector<value> const any{std::int64_t{0}};
    backend::step const looks[] = {
        {book().at("pulse_look"), any},  // a transaction begins when it reads a table
        {book().at("pulse_in_the_way"), {}}};
    auto const seen = strategies::run_together(observer, book(), looks, deadline(), false);
    for (auto const& row : seen.back().rows) {
      if (backend::as_int(row.at(4)) != 0) {
        now.shows_observer = true;
        continue;
      }
      auto which = backend::as_text(row.at(0));
      if (among != nullptr && !among->contains(which)) continue;
      now.which.insert(std::move(which));
      auto const session = backend::as_int(row.at(1));
      if (session != 0 && !told.insert(session).second) continue;
      now.sessions.push_back(
          {session, backend::as_text(row.at(2)), milliseconds(backend::as_int(row.at(3)))});
    }
    return now;
  }

  /// A server can go on telling what it told before: pulse_in_the_way. So a session looks whose transactions
  /// all are from now: what shows one of them is from now, too.
  /// @return those that are still there when time is up
  std::vector<session_in_the_way> wait_for_those_before(freeze_options const& o,
                                                        std::stop_token const& stop) try {
    auto const observer = database_.open(deadline());
    auto const over = [&] { return boot_clock::now() >= give_up_at_ || stop.stop_requested(); };
    auto left = in_the_way(*observer, nullptr);
    for (; !left.shows_observer; left = in_the_way(*observer, nullptr))
      if (over())
        throw error(
            errc::failed,
            "the database is frozen, but its server tells only of transactions from before, because other "
            "sessions ask it too often: stop such monitors, and freeze again");
    while (!left.which.empty() && !over()) {
      if (o.on_wait) o.on_wait(left.sessions);
      left = in_the_way(*observer, &left.which);
    }
    return std::move(left.sessions);
  } catch (error const& e) {
    if (e.reason() != errc::access_denied) throw;
    throw error(
        e.reason(),
        fmt::format("the database is frozen, but this account can't see whether statements from before "
                    "are left, which can still be granted a lock: {}",
                    e.what()),
        e.statement(), e.sqlstate(), e.native_code());
  }

  sessions::database database_;
  milliseconds reply_timeout_;
  boot_time_point give_up_at_;
  std::unique_ptr<backend::connection> session_;
  base::boot_waiter waiter_;
};

}  // namespace

freeze_result freeze(connection_source const& source, freeze_options const& o, std::stop_token stop) {
  if (o.duration <= 0ms || o.duration > longest_freeze)
    throw error(errc::invalid_argument,
                fmt::format("a freeze of {} ms is out of range: 1 ms to 365 days", o.duration.count()));
  operation one(source, o, std::max(0ms, o.timeout));
  one.set("pulse_set_frozen", std::int64_t{o.duration.count()}, o.restored);
  return one.wait_until_in_force(o, stop);
}

quarantine_state thaw(connection_source const& source, quarantine_options const& o) {
  operation one(source, o, o.reply_timeout);
  one.set("pulse_set_frozen", value{});
  return one.settle();
}

quarantine_state enable_quarantine(connection_source const& source, bool enabled,
                                   quarantine_options const& o) {
  operation one(source, o, o.reply_timeout);
  one.set("pulse_set_enabled", std::int64_t{enabled ? 1 : 0});
  return one.settle();
}

std::optional<quarantine_state> look_at_quarantine(connection_source const& source,
                                                   quarantine_options const& o) {
  if (source.implementation()->sql().pulse_tables.empty()) return std::nullopt;
  return operation(source, o, 0ms).look();
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

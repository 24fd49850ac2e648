#include "guard/guarded_transaction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/random_id.hpp"
#include "base/text.hpp"
#include "holding/outcome.hpp"
#include "manager/recording.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/quarantine.hpp"
#include "strategy/tokens.hpp"
#include "strategy/unique_insert.hpp"

namespace rowlock::guard {

using namespace std::chrono_literals;
using backend::as_text;
using backend::value;

namespace {

/// Pauses between tries for a row that a transaction has locked. A wait in the server would depend on the
/// program's settings.
class look_again {
 public:
  explicit look_again(boot_time_point until) : until_(until) {}
  /// @return false if there is no time left
  bool wait() {
    auto const now = boot_clock::now();
    if (now >= until_) return false;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(next_, until_ - now));
    next_ = std::min<std::chrono::nanoseconds>(next_ * 2, 50ms);
    return true;
  }

 private:
  boot_time_point until_;
  std::chrono::nanoseconds next_ = 500us;
};

}  // namespace

guarded_transaction::guarded_transaction(std::shared_ptr<managing::manager> m,
                                         std::unique_ptr<backend::caller_connection> c)
    : manager_(std::move(m)), caller_(std::move(c)), anchors_(engine().database.statements()) {
  if (caller_->sql().name != engine().database.sql().name)
    throw error(errc::invalid_argument, fmt::format("{}: the lock_manager is on another kind of database: {}",
                                                    caller_->describe(), engine().database.describe()));
}

backend::result guarded_transaction::run(std::string const& statement, std::vector<value> const& parameters) {
  return caller_->execute(engine().database.statements().at(statement), parameters);
}

// The connection might lead to another database, or by a search path to other tables. Where this plain read
// makes the transaction's snapshot, it comes only after the lock.
void guarded_transaction::expect_this_database() {
  if (right_database_) return;
  if (engine().database.id().empty()) (void)engine().pool.borrow(reply_deadline());
  auto const found = run("meta_read", {});
  if (found.rows.empty() || as_text(found.rows[0].at(0)) != engine().database.id())
    throw error(errc::invalid_argument,
                fmt::format("{}: it leads to other tables than the lock_manager's: {}", caller_->describe(),
                            engine().database.describe()));
  right_database_ = true;
}

void guarded_transaction::require(std::vector<required_lock> locks) {
  manager_->refuse_if_forked();
  sort(locks);
  caller_->expect_transaction();
  for (auto const& one : locks) require_one(one);
}

void guarded_transaction::sort(std::vector<required_lock>& locks) {
  std::sort(locks.begin(), locks.end(),
            [](auto const& a, auto const& b) { return a.hold->facts().name < b.hold->facts().name; });
}

void guarded_transaction::execute_commit(std::vector<required_lock> locks) {
  manager_->refuse_if_forked();
  sort(locks);
  // After a failure the program's next COMMIT must not commit unguarded work. [C56]
  try {
    commit_guarded(locks);
  } catch (...) {
    caller_->rollback();
    throw;
  }
}

void guarded_transaction::commit_guarded(std::vector<required_lock> const& locks) {
  if (locks.empty())
    throw error(errc::invalid_argument, "execute_commit: name the locks that the commit is to depend on");
  std::vector<std::vector<value>> which;
  which.reserve(locks.size());
  for (auto const& one : locks) {
    expect_requirable_here(one);
    which.push_back({one.hold->facts().name, one.hold->facts().term.value});
  }
  bool const of_locks = std::none_of(locks.begin(), locks.end(), [](auto const& one) {
    return holding::traits_of(one.hold->facts()).counted;
  });
  if (of_locks && caller_->commit_if(engine().database.statements(), which)) return;
  // The quick form refused. require_one() waits, or throws the reason.
  caller_->expect_transaction();
  for (auto const& one : locks) require_one(one);
  caller_->commit();
}

void guarded_transaction::expect_requirable_here(required_lock const& lock) {
  auto const& here = engine().database;
  if (here.number() == 0) (void)engine().pool.borrow(reply_deadline());
  if (lock.manager->parts().database.number() != here.number())
    throw error(errc::invalid_argument,
                fmt::format("'{}' is a lock of another database than this lock_manager's: {}",
                            lock.hold->facts().name, here.describe()));
  expect_requirable(lock);
}

void guarded_transaction::require_one(required_lock const& lock) {
  expect_requirable_here(lock);
  auto const& facts = lock.hold->facts();
  depend_on(lock, "guard_require", {facts.name, facts.term.value});
}

void guarded_transaction::done(required_lock const& lock, std::chrono::milliseconds keep_for,
                               std::string const& result) {
  manager_->refuse_if_forked();
  auto const& facts = lock.hold->facts();
  managing::recording::require_recordable(facts, keep_for, result);
  caller_->expect_transaction();
  expect_requirable_here(lock);
  // Before it is sent, so that other threads know the record by its term.
  auto const as = lock.hold->term_of_record();
  lock.hold->mark_recorded_in_transaction();
  depend_on(
      lock, "guard_record",
      {facts.name, facts.term.value, as.value, std::int64_t{keep_for.count()}, result, time_of_manager()});
}

void guarded_transaction::admit(std::string const& name, fencing_token token) {
  manager_->refuse_if_forked();
  base::require_name(name);
  if (token.value <= 0)
    throw error(errc::invalid_argument, fmt::format("'{}': a token of {} is none", name, token.value));
  caller_->expect_transaction();
  expect_this_database();
  run("guard_admit", {name, token.value});
  auto const known = backend::as_int(run("guard_admitted", {name}).rows.at(0).at(0));
  if (known > token.value)
    throw error(errc::lock_lost,
                fmt::format("'{}' is not held any more: token {} was here, and is higher than {}: roll the "
                            "transaction back",
                            name, known, token.value));
}

void guarded_transaction::depend_on(required_lock const& lock, char const* statement,
                                    std::vector<value> const& parameters) {
  auto const& facts = lock.hold->facts();
  look_again again(reply_deadline());
  do {
    auto const came = attempt(facts, statement, parameters);
    if (came == guarded::yes) return;
    expect_this_database();
    // Before the manager's session reads, which can see a later commit of another transaction. [C72]
    bool const recorded_here = sees_record(*lock.hold);
    auto loan = engine().pool.borrow(reply_deadline());
    auto const seen = holding::outcome_of(engine().tables, *loan, *lock.hold, reply_deadline());
    if (seen.done) refuse(facts.name, was_recorded);
    if (seen.lost) lost(lock, *seen.lost);
    if (recorded_here)
      throw error(
          errc::invalid_argument,
          fmt::format("'{}': this transaction has called done() for this lock. It depends on the lock by "
                      "that, and can't ask for it again. End it with a plain COMMIT; require() comes "
                      "before done()",
                      facts.name));
    if (came == guarded::old_snapshot) too_old(facts.name);
  } while (again.wait());
  throw error(errc::row_locked,
              fmt::format("'{}': another transaction has its row locked, and has not ended in {} ms",
                          facts.name, engine().options.reply_timeout.count()));
}

bool guarded_transaction::sees_record(holding::hold& h) {
  if (!h.recorded_in_transaction()) return false;
  value const as = h.term_of_record().value;
  return run("guard_look", {h.facts().name, as}).rows.at(0).at(0) == as;
}

guarded_transaction::guarded guarded_transaction::attempt(holding::grant_facts const& f,
                                                          char const* statement,
                                                          std::vector<value> const& parameters) {
  auto const run = [this, of_permit = holding::traits_of(f).counted](std::string const& which,
                                                                     std::vector<value> const& with) {
    return this->run(of_permit ? backend::permits_prefix + which : which, with);
  };
  try {
    if (engine().database.sql().plain_reads_may_be_stale) {
      auto const row = run("guard_lock", {f.name, f.term.value});
      if (row.rows.empty()) return guarded::row_is_locked_or_gone;
      if (row.rows[0].at(0) != value(f.term.value)) return guarded::old_snapshot;
    }
    auto const found = run(statement, parameters);  // a row that is only locked, or one that is changed
    if (!found.rows.empty() || found.affected > 0) return guarded::yes;
    // The row is locked, or the snapshot does not show it.
    auto const seen = run("guard_look", {f.name, f.term.value});
    return seen.rows.at(0).at(0) == value(f.term.value) ? guarded::row_is_locked_or_gone
                                                        : guarded::old_snapshot;
  } catch (error const& e) {
    // The row has changed since the snapshot, by a renewal or a takeover.
    if (e.reason() == errc::snapshot_too_old) return guarded::old_snapshot;
    throw;
  }
}

void guarded_transaction::too_old(std::string const& name) {
  throw error(errc::snapshot_too_old,
              fmt::format("'{}': the transaction sees the database as it was before the lock was taken, or "
                          "renewed: begin it again, and make this its first statement",
                          name));
}

bool guarded_transaction::lock(std::span<std::string_view const> names, wait_policy const& p) {
  manager_->refuse_if_forked();
  std::vector<std::string> ordered(names.begin(), names.end());
  for (auto const& name : ordered) base::require_name(name);
  std::sort(ordered.begin(), ordered.end());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  if (engine().database.sql().writes_lock_database)
    caller_->expect_writer();
  else
    caller_->expect_transaction();
  if (!engine().database.sql().plain_reads_may_be_stale) expect_this_database();
  for (auto const& name : ordered)
    if (!lock_one(name, p)) return false;
  // After all are locked, because the read makes a snapshot if there is none.
  if (engine().database.sql().plain_reads_may_be_stale && !ordered.empty()) {
    auto const entry = entry_to_draw(ordered.back());
    auto const drawn = draw_if_granting(entry, 0ms);
    if (!drawn) return false;
    expect_fresh(ordered.back(), entry, *drawn);
  }
  return true;
}

bool guarded_transaction::lock_one(std::string const& name, wait_policy const& p) {
  if (engine().database.sql().writes_lock_database) {
    run("guard_try", {name});
    return true;
  }
  // Before the transaction searches the row: at the default isolation level of some servers a missing row is
  // a locked gap, and the manager's INSERT would wait for this transaction.
  try {
    auto loan = engine().session_pool.borrow(reply_deadline());
    anchors_.make_ready(*loan, name, reply_deadline());
  } catch (error const& e) {
    if (e.reason() == errc::row_locked) refuse_own_insert(name);
    throw;
  }
  return lock_anchor(name, p);
}

// The manager's session has waited for this transaction. [C72]
void guarded_transaction::refuse_own_insert(std::string const& name) {
  auto const mine = run("guard_strategy", {name});
  if (mine.rows.empty() || as_text(mine.rows[0].at(0)) == to_string(strategy::row_lock)) return;
  throw error(
      errc::strategy_mismatch,
      fmt::format("'{}': this transaction has taken it by insert(), which needs no lock() besides. Use "
                  "one name with one of the two only",
                  name));
}

bool guarded_transaction::lock_anchor(std::string const& name, wait_policy const& p) {
  if (p.in_server) {
    if (!run("guard_wait", {name}).rows.empty()) return true;
    refuse_level(name);
    if (auto const now = quarantine(0ms); now.left > 0ms) throw strategies::refused_in_quarantine(name, now);
    expect_this_database();
    throw error(
        errc::conflict,
        fmt::format("'{}': its row was deleted while this waited for it: begin the transaction again", name));
  }
  look_again again(p.until);
  do {
    if (!run("guard_try", {name}).rows.empty()) return true;
    refuse_level(name);
    if (quarantine(0ms).left > 0ms) return false;
  } while (again.wait());
  // On some databases a mere reader (`rowlock list`) makes a try fail.
  look_again past_lookers(boot_clock::now() + 1s);
  while (only_looked_at(name) && past_lookers.wait())
    if (!run("guard_try", {name}).rows.empty()) return true;
  return false;
}

bool guarded_transaction::only_looked_at(std::string const& name) {
  auto loan = engine().session_pool.borrow(reply_deadline());
  return anchors_.only_looked_at(*loan, name, reply_deadline());
}

void guarded_transaction::refuse_level(std::string const& name) {
  if (engine().database.sql().plain_reads_may_be_stale) return;
  auto const level = as_text(run("guard_look", {name, ""}).rows.at(0).at(1));
  if (level == "read committed") return;
  throw error(
      errc::unsupported,
      fmt::format("'{}': at isolation level {} the database would show this transaction what was there "
                  "before the lock: use READ COMMITTED, or a mutex and require()",
                  name, level));
}

// Committed on a session of the manager, because no ROLLBACK may undo a token.
fencing_token guarded_transaction::draw_token(backend::connection& session, std::string const& name) {
  return sessions::retry_deadlocks(engine().events, name, reply_deadline(), [&] {
    return strategies::tokens(engine().database.statements()).draw(session, name, reply_deadline());
  });
}

fencing_token guarded_transaction::draw_token(std::string const& name) {
  auto loan = engine().pool.borrow(reply_deadline());
  return draw_token(*loan, name);
}

// Where the program's transaction may see old pulses, or lock what it sees of them (at SERIALIZABLE),
// its statements don't ask for one. The manager's session does, after the lock was granted, and draws the
// token. The transaction sees that token: so the server that has granted the lock is the one that was asked.
std::optional<fencing_token> guarded_transaction::draw_if_granting(std::string const& name,
                                                                   std::chrono::milliseconds ttl) {
  auto loan = engine().pool.borrow(reply_deadline());
  auto const& book = engine().database.statements();
  if (strategies::settle_quarantine(*loan, book, ttl, reply_deadline()).left > 0ms) return std::nullopt;
  return draw_token(*loan, name);
}

// At SERIALIZABLE an earlier plain read of this transaction has locked the entry, and a draw would wait for
// its end. Then an entry with a random name serves, which the reaper deletes. [C32]
std::string guarded_transaction::entry_to_draw(std::string const& name) {
  auto loan = engine().pool.borrow(reply_deadline());
  auto const ask = [&](char const* statement) {
    std::vector<value> const parameters{name};
    return loan->execute(engine().database.statements().at(statement), parameters, reply_deadline());
  };
  if (!ask("token_try").rows.empty() || ask("token_read").rows.empty()) return name;
  return base::random_id();
}

// A token is drawn and committed after the lock was granted. If this transaction's plain read misses it, its
// snapshot is older than the lock. This works at any isolation level, which not every database tells.
void guarded_transaction::expect_fresh(std::string const& name, std::string const& entry,
                                       fencing_token drawn) {
  expect_this_database();
  auto const seen = run("token_read", {entry});
  if (seen.rows.empty() || seen.rows[0].at(0) != value(drawn.value)) too_old(name);
}

std::optional<detached_lock> guarded_transaction::insert(std::string const& name,
                                                         std::chrono::milliseconds ttl,
                                                         std::string const& note) {
  manager_->refuse_if_forked();
  mutex_options o;
  o.strategy = strategy::unique_insert;
  o.ttl = ttl;
  o.note = note;
  auto const spec = manager_->spec(name, o, false);
  if (engine().database.sql().writes_lock_database)
    caller_->expect_writer();
  else
    caller_->expect_transaction();
  if (!engine().database.sql().plain_reads_may_be_stale) expect_this_database();
  if (!engine().database.sql().plain_reads_may_be_stale && !engine().database.sql().writes_lock_database)
    refuse_level(name);
  if (!is_free(name)) return std::nullopt;
  auto const once = [&] {
    caller_->set_savepoint();
    std::optional<detached_lock> taken;
    try {
      taken = insert_row(spec);
    } catch (...) {
      undo_insert(name);
      throw;
    }
    if (taken)
      caller_->release_savepoint();
    else
      caller_->undo_to_savepoint();
    return taken;
  };
  auto taken = once();
  if (taken) return taken;
  auto const now = quarantine(ttl);
  return now.changed && now.left == 0ms ? once() : std::nullopt;
}

void guarded_transaction::undo_insert(std::string const& name) {
  try {
    caller_->undo_to_savepoint();
  } catch (error const& e) {
    if (e.reason() == errc::unreachable) throw;
    // Without a transaction there is no savepoint, and the program must not commit the rest of its work.
    throw error(errc::transaction_ended,
                fmt::format("'{}': the insert could not be undone: roll the transaction back ({})", name,
                            base::plain_message(e)));
  }
}

// The manager's session deletes an expired row: on some databases the program's transaction would keep the
// row locked even if it has a holder. With a single writer for the whole database, only this transaction can
// delete it.
bool guarded_transaction::is_free(std::string const& name) {
  auto loan = engine().pool.borrow(reply_deadline());
  auto const row = engine().tables.locks.read(*loan, name, reply_deadline());
  if (!row) return true;
  strategies::require_strategy(*row, strategy::unique_insert);
  if (!row->takeable()) return false;
  std::vector<value> const what{name, to_string(strategy::unique_insert), nullptr, nullptr, std::int64_t{0}};
  if (engine().database.sql().writes_lock_database) {
    run("unique_clear", what);
    return true;
  }
  try {
    sessions::retry_deadlocks(engine().events, name, reply_deadline(), [&] {
      return loan->execute(engine().database.statements().at("unique_clear"), what, reply_deadline());
    });
  } catch (error const& e) {
    if (e.reason() != errc::row_locked) throw;
    return false;
  }
  return true;
}

// Settled on the manager's session, so that the program's transaction finds what the database grants.
strategies::quarantine guarded_transaction::quarantine(std::chrono::milliseconds ttl) {
  if (!engine().database.statements().pulses()) return {};
  auto loan = engine().pool.borrow(reply_deadline());
  return strategies::settle_quarantine(*loan, engine().database.statements(), ttl, reply_deadline());
}

// Never the time of the transaction's session, where the program might have set another one. [B42]
value guarded_transaction::time_of_manager() {
  auto loan = engine().pool.borrow(reply_deadline());
  auto const& clock = engine().database.statements().at("guard_clock");
  return loan->execute(clock, {}, reply_deadline()).rows.at(0).at(0);
}

std::optional<detached_lock> guarded_transaction::insert_row(managing::lock_spec const& spec) {
  auto const now = time_of_manager();
  auto const owner = spec.owner();
  detached_lock taken{spec.name, {base::random_id()}, {}, strategy::unique_insert};
  auto const inserted =
      run("guard_insert", {spec.name, taken.term.value, owner.host, owner.pid, owner.process, owner.thread,
                           std::int64_t{spec.options.ttl.count()}, now, spec.options.note});
  // An INSERT that has to change an existing row to report it says 2, and is undone.
  if (inserted.affected != 1) {
    auto loan = engine().pool.borrow(reply_deadline());
    engine().tables.locks.refuse_if_hidden(*loan, spec.name, reply_deadline());
    return std::nullopt;
  }
  if (engine().database.sql().writes_lock_database) {
    while (taken.token.value == 0) {
      auto const drawn = run("token_draw", {spec.name});
      if (!drawn.rows.empty())
        taken.token = backend::as_token(drawn.rows[0].at(0));
      else
        run("token_insert", {spec.name});
    }
  } else if (engine().database.sql().plain_reads_may_be_stale) {
    auto const drawn = draw_if_granting(spec.name, spec.options.ttl);
    if (!drawn) return std::nullopt;
    taken.token = *drawn;
  } else {
    taken.token = draw_token(spec.name);
  }
  if (engine().database.sql().plain_reads_may_be_stale) expect_fresh(spec.name, spec.name, taken.token);
  run("unique_set_token", {spec.name, taken.term.value, taken.token.value});
  return taken;
}

}  // namespace rowlock::guard

// Whatever a server answers, a call ends by itself, with a result or a rowlock::error. The first three bytes
// choose the database, what is called and a strategy; the others are what the server says.
#include <array>
#include <rowlock/doctor.hpp>
#include <rowlock/error.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/reaper.hpp>

#include "backend/mysql/dialect.hpp"
#include "backend/postgresql/dialect.hpp"
#include "backend/sqlite/dialect.hpp"
#include "base/never_destroyed.hpp"
#include "duration.hpp"
#include "fuzz/hostile_server.hpp"
#include "strategy/catalogue.hpp"
#include "strategy/permits.hpp"
#include "strategy/quorum_member.hpp"
#include "strategy/reaping.hpp"
#include "strategy/replace_term.hpp"
#include "strategy/row_lock.hpp"
#include "text.hpp"

using namespace rowlock;
using namespace std::chrono_literals;

namespace {

/// A run: a server, and what asks it.
struct scene {
  std::shared_ptr<fuzz::hostile_server> server;
  std::shared_ptr<fuzz::hostile_source> source;
  backend::dialect const& dialect;
  strategies::registration const& how;

  connection_source address() const { return connection_source(source); }
};

/// Without a manager: the statements of the strategies, on one session.
struct session {
  explicit session(scene const& s)
      : of(s),
        book(s.dialect, backend::table_names::of(s.dialect, "", "rowlock_")),
        strategy(s.how.make(book)),
        made(s.source->connect(deadline)),
        wait{false, {}, 10ms, [&s] { return s.source->connect({}); }} {
    request.name = name;
    request.term = term;
    request.owner = {"host", 1, "process", 1};
    request.ttl = 30s;
    request.wait = &wait;
    request.vote.epoch_id = "text";
  }
  backend::connection& operator*() const { return *made; }

  scene const& of;
  boot_time_point const deadline = boot_clock::now() + 10ms;
  std::string const name = "name";
  term_id const term{"term"};
  strategies::name_and_term const which{name, term};
  backend::statement_book book;
  std::unique_ptr<strategies::locking_strategy> strategy;
  std::unique_ptr<backend::connection> made;
  strategies::server_wait wait;
  strategies::take_request request;
};

/// What a program shows of a lock.
void show(holder_info const& h) {
  if (h.acquired_at.time_since_epoch().count() != 0) {
    (void)tool::utc(h.acquired_at);
    (void)tool::iso_utc(h.acquired_at);
  }
  (void)tool::format_duration(h.expires_in);
  (void)tool::printable(h.owner.host + h.owner.process + h.note);
}

void take(session& s) {
  boot_time_point sent_at;
  s.request.look_first = s.of.server->choose(2) == 1;
  s.request.tokens = s.strategy->most_tokens();
  std::optional<strategies::superseded> old;
  if (s.of.server->choose(4) == 1) old = {s.term, 1};
  auto const came = s.strategy->take(*s, s.request, old, s.deadline, sent_at);
  if (auto const* why_not = std::get_if<strategies::refused>(&came); why_not != nullptr && why_not->row) {
    show(why_not->row->holder);
    (void)why_not->row->must_be_silent_for();
    (void)why_not->row->takeable();
  }
}

void take_together(session& s) {
  boot_time_point sent_at;
  std::array<strategies::wanted_lock, 2> const wanted{{{"name", s.term}, {"other", s.term}}};
  (void)s.strategy->take_each(*s, s.request, wanted, s.deadline, sent_at);
  std::array<strategies::name_and_term, 2> const both{{{"name", s.term}, {"other", s.term}}};
  (void)s.strategy->give_back_all(*s, both, s.deadline);
  (void)s.strategy->take_all(*s, s.request, wanted, s.deadline, sent_at);
}

void give_back(session& s) {
  (void)s.strategy->give_back(*s, s.which, 0ms, s.deadline);
  (void)s.strategy->give_back(*s, s.which, 1s, s.deadline);
  (void)s.strategy->find_doubtful(*s, s.name, std::span(&s.term, 1), s.deadline);
  if (s.of.how.traits.has_expiry) (void)s.strategy->give_back_at_queue(*s, s.which, s.deadline);
  if (s.of.how.traits.records_done) (void)s.strategy->record(*s, {s.which, {"as"}, 1h, "result"}, s.deadline);
}

void look_at_rows(session& s) {
  strategies::term_tables const tables(s.book);
  auto const& rows = tables.of(s.of.how.which);
  for (auto const& row : tables.locks.list(*s, {.idle = true, .to = "~"}, s.deadline)) show(row.holder);
  (void)tables.locks.list_end(*s, "", 9, s.deadline);
  for (auto const& row : tables.permits.list_permits(*s, {}, s.deadline)) show(row.holder);
  if (auto const row = rows.find(*s, s.name, s.deadline)) show(row->holder);
  (void)rows.waiters(*s, std::span(&s.name, 1), s.deadline);
  (void)rows.check(*s, std::span(&s.which, 1), s.deadline);
  (void)rows.is_locked(*s, s.which, s.deadline);
  rows.refuse_if_hidden(*s, s.name, s.deadline);
  if (auto const row = rows.read(*s, s.name, s.deadline)) show(row->holder);
}

void change_rows(session& s) {
  strategies::term_tables const tables(s.book);
  auto const& rows = tables.of(s.of.how.which);
  (void)rows.renew(*s, std::span(&s.which, 1), s.deadline);
  (void)rows.extend(*s, s.which, 1s, s.deadline);
  (void)rows.set_note(*s, s.which, "note", s.deadline);
  (void)rows.revoke(*s, {s.name, {}}, revoke_mode::now, s.deadline);
  (void)rows.revoke(*s, s.which, revoke_mode::at_renewal, s.deadline);
  (void)strategies::replace_term(*s, s.book, s.which, {"closed"}, 1s, s.deadline);
}

void look_at_holders(session& s) {
  for (auto const& held : s.strategy->holders(*s, {"", "~"}, s.deadline)) show(held.by);
  if (auto const* row_lock = dynamic_cast<strategies::row_lock const*>(s.strategy.get()))
    row_lock->make_ready(*s, s.name, s.deadline);
  s.strategy->was_used(*s, s.name, s.deadline);
  s.strategy->ping(*s, s.deadline);
}

void count_permits(session& s) {
  strategies::permits const permits(s.book, s.of.how.which);
  (void)permits.free_units(*s, s.name, {}, s.deadline);
  s.request.permit.limit = s.of.server->choose(2) == 1 ? std::optional<std::int64_t>(10) : std::nullopt;
  s.request.permit.where = static_cast<strategies::wanted_permit::place>(s.of.server->choose(3));
  take(s);
  permits.set_limit(*s, s.name, 10, s.deadline);
  (void)permits.free_units(*s, s.name, 10, s.deadline);
}

void vote(session& s) {
  using member = strategies::quorum_member;
  auto const state = member::read(*s, s.book, true, s.deadline);
  (void)member::confirm(*s, s.book, s.which, state.highest, state.record.epoch_id, 1s, s.deadline);
  (void)member::write(*s, s.book, state.record.epoch_id, state.record, s.deadline);
  member::raise_tokens(*s, s.book, state.highest, s.deadline);
}

void reap_pages(session& s) {
  using strategies::reaped_table;
  strategies::reaping const reaping(s.book, 1h);
  if (auto const last = reaping.last(*s, s.deadline)) {
    (void)tool::utc(last->started_at);
    (void)tool::utc(last->finished_at);
  }
  (void)reaping.floor(*s, s.deadline);
  auto const seen = reaping.look_at_permits(*s, {}, 10, s.deadline);
  (void)reaping.remove_permits(*s, seen.due, s.deadline);
  for (auto const table : {reaped_table::locks, reaped_table::tokens}) {
    strategies::page const page{table, "", 10};
    auto const due = reaping.look(*s, page, s.deadline);
    reaping.raise_floor(*s, due.highest_token, s.deadline);
    (void)reaping.remove(*s, page, due, s.deadline);
    for (auto const& kept : reaping.kept(*s, page, due, s.deadline)) (void)reaping.end(*s, kept, s.deadline);
  }
}

template <void (*what)(session&)>
void on_a_session(scene const& of) {
  session s(of);
  what(s);
}

manager_options impatient() {
  manager_options o;
  o.connections = 1;
  o.queue_connections = 0;
  o.reply_timeout = 10ms;
  o.release_timeout = 10ms;
  return o;
}

mutex_options once_only(scene const& of) {
  mutex_options o;
  o.strategy = of.how.which;
  o.ttl = 100ms;  // done() and release() ride out a server that takes no writes for as long as trust lasts
  o.renew = !of.how.traits.has_expiry;
  o.retry = {.first = 1ms, .longest = 1ms, .attempts = 3};
  return o;
}

void hold(scene const& of) {
  lock_manager manager(of.address(), impatient());
  auto mutex = manager.make_mutex("name", once_only(of));
  auto lock = mutex.try_acquire_for(0ms, of.server->gave_up());
  if (lock.holder()) show(*lock.holder());
  if (!lock) return;
  if (of.how.traits.has_expiry) {
    (void)lock->extend(200ms);
    (void)lock->set_note("note");
  }
  if (of.how.traits.records_done) (void)lock->done(1h, "result");
  (void)lock->token();
  (void)lock->release();
}

void ask_a_manager(scene const& of) {
  lock_manager manager(of.address(), impatient());
  manager.connect();
  for (auto const& lock : manager.list({.idle = true, .done = true})) {
    show(lock.holder);
    for (auto const& waiter : lock.waiters) (void)tool::printable(waiter.host + waiter.application);
  }
  if (auto const lock = manager.find("name")) show(lock->holder);
  (void)manager.renew({"name", {"term"}});
  (void)manager.release({"name", {"term"}});
  (void)manager.revoke("name", revoke_mode::at_renewal);  // `now` would wait each time
}

void ask_a_semaphore(scene const& of) {
  lock_manager manager(of.address(), impatient());
  auto const known = of.server->choose(2) == 1 ? std::optional<std::int64_t>(10) : std::nullopt;
  auto semaphore = manager.make_semaphore(
      "name", known, {.renew = false, .retry = {.first = 1ms, .longest = 1ms, .attempts = 3}});
  (void)semaphore.available();
  semaphore.set_limit(3);
  auto permit = semaphore.try_acquire_for(0ms, 2, of.server->gave_up());
  if (permit) (void)permit->release();
}

// A check that fails says so in words of ours.
void examine(scene const& of) {
  doctor_options o;
  o.reply_timeout = 10ms;
  for (auto const& f : doctor(of.address(), o).examine())
    fuzz::must(f.why.find("_M_range_check") == f.why.npos);
}

migrator impatient_migrator(scene const& of) {
  migrator_options o;
  o.timeout = 0ms;
  return migrator(of.address(), o);
}

void status(scene const& of) { (void)impatient_migrator(of).status(); }
void validate(scene const& of) { (void)impatient_migrator(of).validate(); }
void repair(scene const& of) { (void)impatient_migrator(of).repair(); }
void up(scene const& of) { (void)impatient_migrator(of).up(); }
void down(scene const& of) { (void)impatient_migrator(of).down(0, of.server->choose(2) == 1, false); }

reaper impatient_reaper(scene const& of, bool dry_run) {
  reaper_options o;
  o.dry_run = dry_run;
  o.wait = 0ms;
  o.watch = 0ms;
  o.reply_timeout = 10ms;
  return reaper(of.address(), o);
}

void reap(scene const& of) {
  auto const done = impatient_reaper(of, of.server->choose(2) == 1).run(of.server->gave_up());
  (void)to_json(done);
  if (done.holder) show(*done.holder);
}

void last_reaped(scene const& of) {
  if (auto const last = impatient_reaper(of, true).last()) (void)tool::utc(last->finished_at);
}

/// A dialect without its texts, which this server does not read: names are put into them for each run.
class wordless {
 public:
  explicit wordless(backend::dialect const& d) : its_(d) {
    for (auto const& one : d.statements) statements_.push_back({one.name, ""});
    for (auto const& one : d.migrations)
      migrations_.push_back({one.version, one.name, "CREATE TABLE rowlock_locks;",
                             "LOCK TABLES rowlock_locks WRITE;\nDROP TABLE rowlock_locks;"});
    its_.statements = statements_;
    its_.migrations = migrations_;
  }
  wordless(wordless const&) = delete;
  wordless& operator=(wordless const&) = delete;
  backend::dialect const& operator*() const noexcept { return its_; }

 private:
  backend::dialect its_;
  std::vector<backend::sql_text> statements_;
  std::vector<backend::migration_text> migrations_;
};

using call = void (*)(scene const&);
constexpr std::array<call, 20> calls{on_a_session<take>,
                                     on_a_session<take_together>,
                                     on_a_session<give_back>,
                                     on_a_session<look_at_rows>,
                                     on_a_session<change_rows>,
                                     on_a_session<look_at_holders>,
                                     on_a_session<count_permits>,
                                     on_a_session<vote>,
                                     on_a_session<reap_pages>,
                                     hold,
                                     ask_a_manager,
                                     ask_a_semaphore,
                                     examine,
                                     status,
                                     validate,
                                     repair,
                                     up,
                                     down,
                                     reap,
                                     last_reaped};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  // A manager's threads may go on for a moment, also while the process ends.
  static auto const& sqlite = base::never_destroyed<wordless>(backend::sqlite::sqlite_dialect());
  static auto const& postgresql = base::never_destroyed<wordless>(backend::postgresql::postgresql_dialect());
  static auto const& mysql = base::never_destroyed<wordless>(backend::mysql::mysql_dialect());
  std::array<backend::dialect const*, 3> const dialects{&*sqlite, &*postgresql, &*mysql};
  fuzz::bytes all({data, size});
  // From 'a' and '0' on, so that seeds can be read.
  auto const& dialect = *dialects.at(all.below(dialects.size()));
  auto const what = calls.at(static_cast<std::uint8_t>(all.next() - 'a') % calls.size());
  auto const& known = strategies::registered();
  auto const& how = known[static_cast<std::uint8_t>(all.next() - '0') % known.size()];
  if (!how.why_not_on(dialect).empty()) return 0;
  auto const server = std::make_shared<fuzz::hostile_server>(all.rest(), how.name);
  scene const of{server, std::make_shared<fuzz::hostile_source>(server, dialect), dialect, how};
  try {
    what(of);
  } catch (error const& e) {
    fuzz::must(!std::string_view(e.what()).empty());
  }
  return 0;
}

#include "contract/fixture.hpp"

#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <thread>
#include <utility>

#include "base/random_id.hpp"

namespace rowlock::test {
namespace {

/// The name under which the cases know a statement.
std::string step(std::string const& statement) {
  if (statement.ends_with("_take") || statement == "row_wait" || statement == "row_try") return "lock_take";
  if (statement == "unique_release") return "lock_release";
  if (statement == "token_insert") return "lock_insert_free";
  if (statement == "lock_renew_due") return "lock_renew";
  if (statement == "reap_locks_due") return "reap_locks_delete";
  if (statement == "reap_tokens_due") return "reap_tokens_delete";
  return statement;
}

/// Where a renewal, or what the reaper deletes, takes a transaction of two statements (the first of them
/// locks the rows), the second is nothing of its own.
bool is_second(std::string const& statement) {
  return statement == "lock_renew" || statement == "reap_locks_delete" || statement == "reap_tokens_delete";
}

class observed_connection final : public backend::connection {
 public:
  observed_connection(std::unique_ptr<backend::connection> c, std::shared_ptr<seam> s)
      : inner_(std::move(c)), seam_(std::move(s)) {
    ++seam_->connections;
  }
  ~observed_connection() override { --seam_->connections; }

  backend::result execute(backend::statement const& s, std::span<backend::value const> p,
                          boot_time_point deadline) override {
    auto const name = in_transaction_ && is_second(s.name) ? s.name + ", second half" : step(s.name);
    seam_->count(name);
    seam_->look(name, p);
    cut_on_throw([&] { call_before(name); });
    auto r = inner_->execute(s, p, deadline);
    if (in_transaction_ && name != "lock_insert_free")
      uncommitted_.push_back(name);
    else
      cut_on_throw([&] { seam_->after(name); });
    return r;
  }
  backend::result wait_for_row(backend::statement const& s, std::span<backend::value const> p,
                               boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                               std::stop_token stop) override {
    auto const name = step(s.name);
    seam_->count(name);
    seam_->look(name, p);
    cut_on_throw([&] { seam_->before(name); });
    auto r = inner_->wait_for_row(s, p, deadline, reply_timeout, std::move(stop));
    holds_row_ = true;
    cut_on_throw([&] { seam_->after(name); });
    return r;
  }
  void script(std::string_view sql, boot_time_point deadline) override {
    bool const gives_back = sql == "ROLLBACK" && std::exchange(holds_row_, false);
    if (gives_back) {
      seam_->count("lock_release");
      cut_on_throw([&] { seam_->before("lock_release"); });
    }
    bool const begins = sql.substr(0, 5) == "BEGIN" || sql.substr(0, 5) == "START";
    if (begins) {
      seam_->count("begin");
      cut_on_throw([&] { seam_->before("begin"); });
    } else if (sql == "COMMIT") {
      seam_->count("commit");
      if (lost_) {  // it never arrives
        inner_->close();
        cut_on_throw([&] { std::rethrow_exception(std::exchange(lost_, nullptr)); });
      }
    }
    inner_->script(sql, deadline);
    in_transaction_ = begins;
    lost_ = nullptr;
    auto const done = std::exchange(uncommitted_, {});
    if (sql == "COMMIT")
      for (auto const& name : done) cut_on_throw([&] { seam_->after(name); });
  }
  void expect_row_locks() const override { inner_->expect_row_locks(); }
  std::optional<std::string> find_schema(std::string const& table, bool or_new,
                                         boot_time_point deadline) override {
    return inner_->find_schema(table, or_new, deadline);
  }
  bool usable() const noexcept override { return !cut_ && inner_->usable(); }
  bool alive() override { return usable() && inner_->alive(); }
  std::string const& server_identity() const noexcept override { return inner_->server_identity(); }
  backend::session_facts facts() const override { return inner_->facts(); }
  void close() noexcept override { inner_->close(); }

 private:
  void call_before(std::string const& name) {
    try {
      seam_->before(name);
    } catch (error const& e) {
      // What is lost in a transaction is nothing; the COMMIT's reply is what can be lost.
      if (!in_transaction_ || e.reason() != errc::in_doubt) throw;
      lost_ = std::current_exception();
    }
  }
  // As a real session: after a lost reply it is of no use any more.
  template <class F>
  void cut_on_throw(F const& f) {
    try {
      f();
    } catch (...) {
      cut_ = true;
      throw;
    }
  }
  std::unique_ptr<backend::connection> inner_;
  std::shared_ptr<seam> seam_;
  bool cut_ = false;
  bool in_transaction_ = false;
  bool holds_row_ = false;
  std::exception_ptr lost_;
  std::vector<std::string> uncommitted_;
};

class observed_source final : public backend::source {
 public:
  observed_source(std::shared_ptr<backend::source> s, std::shared_ptr<seam> m)
      : inner_(std::move(s)), seam_(std::move(m)) {}
  bool gone(std::string const& identity) const noexcept override { return inner_->gone(identity); }
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    return std::make_unique<observed_connection>(inner_->connect(deadline), seam_);
  }
  backend::dialect const& sql() const noexcept override { return inner_->sql(); }
  std::string describe() const override { return inner_->describe(); }

 private:
  std::shared_ptr<backend::source> inner_;
  std::shared_ptr<seam> seam_;
};

manager_options in_schema(std::string schema) {
  manager_options o;
  o.schema = std::move(schema);
  return o;
}

}  // namespace

void seam::count(std::string const& statement) {
  std::lock_guard const guard(mutex_);
  ++counts_[statement];
}

int seam::executed(std::string const& statement) const {
  std::lock_guard const guard(mutex_);
  auto const found = counts_.find(statement);
  return found == counts_.end() ? 0 : found->second;
}

int seam::executed_in_all() const {
  std::lock_guard const guard(mutex_);
  int all = 0;
  for (auto const& [statement, n] : counts_) all += n;
  return all;
}

void seam::reset() {
  std::lock_guard const guard(mutex_);
  counts_.clear();
}

connection_source observed_by(connection_source source, std::shared_ptr<seam> s) {
  return connection_source(std::make_shared<observed_source>(source.implementation(), std::move(s)));
}

fixture::fixture(connection_source s, manager_options o) : source(std::move(s)), options(std::move(o)) {}

std::unique_ptr<lock_manager> fixture::manager(manager_options o) {
  return std::make_unique<lock_manager>(observed_by(source, seam), std::move(o));
}

void fixture::sql(std::string const& text) {
  auto session = source.implementation()->connect(boot_clock::now() + 10s);
  session->script(tables().render(text), boot_clock::now() + 10s);
}

bool fixture::waited(int attempts) const {
  return traits(options.strategy).waits_in_server ? seam->executed("lock_take") >= 1
                                                  : seam->executed("lock_read") >= attempts;
}

backend::table_names fixture::tables() const {
  return backend::table_names::of(source.implementation()->sql(), options.schema, options.table_prefix);
}

// As a tool of the user's own applies the files: the migrator, which looks at all tables between any two
// steps, would be a third of what the suites cost. tests/migrate is about it.
void fixture::migrate() {
  auto const where = tables();
  auto const session = source.implementation()->connect(boot_clock::now() + 10s);
  if (!where.schema.empty()) session->script("CREATE SCHEMA " + where.schema, boot_clock::now() + 10s);
  for (auto const& m : source.implementation()->sql().migrations)
    session->script(where.render(m.up), boot_clock::now() + 10s);
}

sqlite_fixture::sqlite_fixture(std::unique_ptr<scratch_folder> folder)
    : fixture(sqlite::source(folder->file("locks.db")), {}), folder_(std::move(folder)) {
  migrator(source).up();  // makes the file, too
}

postgresql_fixture::postgresql_fixture()
    : fixture(postgresql::source(postgresql_conninfo()), in_schema(unique_identifier())) {
  migrate();
}

postgresql_fixture::~postgresql_fixture() {
  sql("SET client_min_messages = error; DROP SCHEMA IF EXISTS " + options.schema + " CASCADE");
}

mysql_like_fixture::mysql_like_fixture(std::string const& server_url, std::string const& database)
    : fixture(mysql::source(with_database(server_url, database)), {}),
      url_(with_database(server_url, database)),
      database_(database) {
  auto const deadline = boot_clock::now() + 10s;
  mysql::source(server_url)
      .implementation()
      ->connect(deadline)
      ->script("CREATE DATABASE " + database, deadline);
  migrate();
}

mysql_like_fixture::~mysql_like_fixture() {
  try {
    sql("SET SESSION lock_wait_timeout = 10; DROP DATABASE IF EXISTS " + database_);
  } catch (error const&) {  // the server is gone, which the case itself has noticed
  }
}

dialect dialect_of(fixture const& f) {
  auto const name = f.source.implementation()->sql().name;
  if (name == "sqlite") return dialect::sqlite;
  return name == "mysql" ? dialect::mysql : dialect::postgresql;
}

char const* begin_of(fixture const& f) {
  switch (dialect_of(f)) {
    case dialect::sqlite:
      return "BEGIN IMMEDIATE";
    case dialect::mysql:
      return "START TRANSACTION";
    default:
      return "BEGIN";
  }
}

std::string in_ms(fixture const& f, std::int64_t ms) {
  auto const n = std::to_string(ms);
  switch (dialect_of(f)) {
    case dialect::sqlite:
      return "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + " + n;
    case dialect::mysql:
      return "utc_timestamp(6) + INTERVAL " + n + " * 1000 MICROSECOND";
    default:
      return "clock_timestamp() + interval '" + n + " milliseconds'";
  }
}

namespace {

/// As managers do: who lost a deadlock (InnoDB has them between any INSERT and DELETE of one key) has done
/// nothing.
template <class Statement>
auto despite_deadlocks(Statement const& statement, bool busy_too = false) {
  for (int tries = 1;; ++tries) {
    try {
      return statement();
    } catch (error const& e) {
      bool const again = e.reason() == errc::conflict || (busy_too && e.reason() == errc::row_locked);
      if (!again || tries == 50) throw;
    }
  }
}

}  // namespace

stranger::stranger(fixture& f, std::string process)
    : source_(f.source),
      how_(f.options.strategy),
      writes_lock_database_(f.source.implementation()->sql().writes_lock_database),
      book_(f.source.implementation()->sql(), f.tables()),
      taking_(book_),
      rows_(book_),
      session_(f.source.implementation()->connect(soon())),
      self_{"elsewhere", 1, std::move(process), 1} {}

bool stranger::take_for_session(std::string const& name) {
  strategies::server_wait const look{
      true, {}, 10s, [&] { return source_.implementation()->connect(soon()); }};
  strategies::take_request r{name, {base::random_id()}, self_, 30s, 0ms, takeover::clock, false, ""};
  r.wait = &look;
  boot_time_point sent_at;
  return std::holds_alternative<strategies::granted>(
      taking_.of(how_).take(*session_, r, {}, soon(), sent_at));
}

bool stranger::take_with(std::string const& name, std::chrono::milliseconds ttl, takeover mode,
                         std::optional<strategies::superseded> const& old) {
  return despite_deadlocks([&] {
    strategies::take_request const r{name, {base::random_id()}, self_, ttl, 0ms, mode, true, ""};
    boot_time_point sent_at;
    if (!std::holds_alternative<strategies::granted>(
            taking_.of(how_).take(*session_, r, old, soon(), sent_at)))
      return false;
    terms_[name] = r.term;
    return true;
  });
}

bool stranger::take(std::string const& name, std::chrono::milliseconds ttl, takeover mode) {
  return traits(how_).owns_session ? take_for_session(name) : take_with(name, ttl, mode, {});
}

bool stranger::take_over(std::string const& name) {
  auto const row = read(name);
  return take_with(name, 30s, takeover::clock, strategies::superseded{row->term, row->renewals});
}

bool stranger::claim(std::string const& name, strategies::superseded const& old) {
  return take_with(name, 30s, takeover::clock, old);
}

bool stranger::renew(std::string const& name) { return renew(name, terms_.at(name)); }

bool stranger::renew(std::string const& name, term_id const& term) {
  std::vector<strategies::name_and_term> const one{{name, term}};
  return !rows_.renew(*session_, one, soon()).empty();
}

bool stranger::has_still(std::string const& name) {
  auto const row = read(name);
  return row && row->term == terms_.at(name);
}

bool stranger::release(std::string const& name) {
  if (traits(how_).owns_session) return taking_.of(how_).give_back(*session_, {}, 0ms, soon());
  // Many at once on one SQLite file, on a slow machine: one may find it busy for longer than a session waits.
  return despite_deadlocks(
      [&] {
        return taking_.of(how_).give_back(*session_, {name, terms_.at(name)}, 0ms, soon());
      },
      writes_lock_database_);
}

std::optional<strategies::term_row> stranger::read(std::string const& name) {
  return rows_.read(*session_, name, soon());
}

bool stranger::sees_free(std::string const& name) {
  auto const row = read(name);
  return !row || row->term.empty();
}

bool eventually(std::function<bool()> const& condition, std::chrono::milliseconds patience) {
  auto const until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(2ms);  // polling for a state that nothing announces
  }
  return true;
}

}  // namespace rowlock::test

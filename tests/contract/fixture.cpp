#include "contract/fixture.hpp"

#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <thread>
#include <utility>

#include "base/random_id.hpp"

namespace rowlock::test {
namespace {

/// The name under which the cases know a statement.
std::string step(std::string const& statement) {
  if (statement == "unique_take") return "lock_take";
  if (statement == "unique_release") return "lock_release";
  if (statement == "token_insert") return "lock_insert_free";
  return statement;
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
    auto const name = step(s.name);
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
  void script(std::string_view sql, boot_time_point deadline) override {
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
  bool usable() const noexcept override { return !cut_ && inner_->usable(); }
  bool alive() override { return usable() && inner_->alive(); }
  std::string const& server_identity() const noexcept override { return inner_->server_identity(); }
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
  std::exception_ptr lost_;
  std::vector<std::string> uncommitted_;
};

class observed_source final : public backend::source {
 public:
  observed_source(std::shared_ptr<backend::source> s, std::shared_ptr<seam> m)
      : inner_(std::move(s)), seam_(std::move(m)) {}
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
  session->script(backend::table_names{options.schema, options.table_prefix}.render(text),
                  boot_clock::now() + 10s);
}

void fixture::migrate() {
  migrator_options o;
  o.schema = options.schema;
  o.table_prefix = options.table_prefix;
  migrator(source, o).up();
}

sqlite_fixture::sqlite_fixture(std::unique_ptr<scratch_folder> folder)
    : fixture(sqlite::source(folder->file("locks.db")), {}), folder_(std::move(folder)) {
  migrate();
}

postgresql_fixture::postgresql_fixture()
    : fixture(postgresql::source(postgresql_conninfo()), in_schema(unique_identifier())) {
  migrate();
}

postgresql_fixture::~postgresql_fixture() {
  sql("SET client_min_messages = error; DROP SCHEMA IF EXISTS " + options.schema + " CASCADE");
}

stranger::stranger(fixture& f, std::string process)
    : how_(f.options.how),
      book_(f.source.implementation()->sql(), {f.options.schema, f.options.table_prefix}),
      taking_(book_),
      rows_(book_),
      session_(f.source.implementation()->connect(soon())),
      self_{"elsewhere", 1, std::move(process), 1} {}

bool stranger::take_with(std::string const& name, std::chrono::milliseconds ttl, takeover mode,
                         std::optional<strategies::superseded> const& old) {
  strategies::take_request const r{name, {base::random_id()}, self_, ttl, 0ms, mode, true, ""};
  boot_time_point sent_at;
  if (!std::holds_alternative<strategies::granted>(taking_.of(how_).take(*session_, r, old, soon(), sent_at)))
    return false;
  terms_[name] = r.term;
  return true;
}

bool stranger::take(std::string const& name, std::chrono::milliseconds ttl, takeover mode) {
  return take_with(name, ttl, mode, {});
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

bool stranger::release(std::string const& name) {
  return taking_.of(how_).release(*session_, {name, terms_.at(name)}, soon());
}

std::optional<strategies::lock_row> stranger::read(std::string const& name) {
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

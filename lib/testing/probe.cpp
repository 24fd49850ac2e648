#include "testing/probe.hpp"

#include <exception>
#include <rowlock/error.hpp>
#include <utility>
#include <vector>

#include "backend/statement_book.hpp"

namespace rowlock::testing {
namespace {

/// The statement's step, the same for all strategies.
std::string step(std::string const& statement) {
  constexpr std::string_view of_permits = "permits_";
  if (statement.starts_with(of_permits)) return step(statement.substr(of_permits.size()));
  if (statement == "permit_anchor") return "lock_take";
  if (statement == "permit_release") return "lock_release";
  if (statement.ends_with("_take") || statement == "row_wait" || statement == "row_try") return "lock_take";
  if (statement == "unique_release" || statement == "all_release") return "lock_release";
  if (statement == "all_read") return "lock_read";
  if (statement == "at_once_draw") return "token_draw";
  if (statement == "token_insert" || statement == "at_once_entry") return "lock_insert_free";
  if (statement == "lock_renew_due") return "lock_renew";
  if (statement == "reap_locks_due") return "reap_locks_delete";
  if (statement == "reap_tokens_due") return "reap_tokens_delete";
  return statement;
}

/// Whether the statement only completes a transaction whose first statement locked the rows: no step of its
/// own.
bool is_second(std::string const& statement) {
  return statement == "lock_renew" || statement == "permit_take" || statement == "permit_count" ||
         statement == "permit_replaced" || statement == "permit_token" || statement == "reap_locks_delete" ||
         statement == "reap_tokens_delete";
}

std::string name_in_transaction(std::string const& statement) {
  return is_second(statement) ? statement + ", second half" : step(statement);
}

class observed_connection final : public backend::connection {
 public:
  observed_connection(std::unique_ptr<backend::connection> c, std::shared_ptr<probe> p)
      : inner_(std::move(c)), probe_(std::move(p)) {
    probe_->opened();
  }
  ~observed_connection() override { probe_->closed(); }

  backend::result execute(backend::statement const& s, std::span<backend::value const> p,
                          boot_time_point deadline) override {
    auto const name = in_transaction_ ? name_in_transaction(s.name) : step(s.name);
    probe_->count(name);
    probe_->look(name, p);
    cut_on_throw([&] { call_before(name); });
    auto r = inner_->execute(s, p, deadline);
    if (in_transaction_ && name != "lock_insert_free")
      uncommitted_.push_back(name);
    else
      cut_on_throw([&] { probe_->after(name); });
    probe_->reply(name, r);
    return r;
  }
  // One round trip: all statements are sent before any reply.
  std::vector<backend::result> execute_at_once(std::span<backend::step const> steps,
                                               boot_time_point deadline) override {
    probe_->count(step(steps.front().what.name));
    cut_on_throw([&] { probe_->before("begin"); });
    for (auto const& one : steps) {
      probe_->look(name_in_transaction(one.what.name), one.parameters);
      cut_on_throw([&] { probe_->before(name_in_transaction(one.what.name)); });
    }
    auto done = inner_->execute_at_once(steps, deadline);
    for (auto const& one : steps) cut_on_throw([&] { probe_->after(name_in_transaction(one.what.name)); });
    return done;
  }
  void execute_each(std::span<backend::step const> steps, boot_time_point deadline) override {
    probe_->count(step(steps.front().what.name));
    for (auto const& one : steps) {
      probe_->look(step(one.what.name), one.parameters);
      cut_on_throw([&] { call_before(step(one.what.name)); });
    }
    inner_->execute_each(steps, deadline);
    for (auto const& one : steps) cut_on_throw([&] { probe_->after(step(one.what.name)); });
  }
  backend::result wait_for_row(backend::statement const& s, std::span<backend::value const> p,
                               boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                               std::stop_token stop) override {
    auto const name = step(s.name);
    probe_->count(name);
    probe_->look(name, p);
    cut_on_throw([&] { probe_->before(name); });
    auto r = inner_->wait_for_row(s, p, deadline, reply_timeout, std::move(stop));
    holds_row_ = true;
    cut_on_throw([&] { probe_->after(name); });
    return r;
  }
  void script(std::string_view sql, boot_time_point deadline) override {
    bool const gives_back = sql == "ROLLBACK" && std::exchange(holds_row_, false);
    if (gives_back) {
      probe_->count("lock_release");
      cut_on_throw([&] { probe_->before("lock_release"); });
    }
    auto const text = backend::behind_marks(sql);
    bool const begins = text.starts_with("BEGIN") || text.starts_with("START");
    if (begins) {
      probe_->count("begin");
      cut_on_throw([&] { probe_->before("begin"); });
    } else if (sql == "COMMIT") {
      probe_->count("commit");
      if (lost_) {  // the COMMIT never arrives
        inner_->close();
        cut_on_throw([&] { std::rethrow_exception(std::exchange(lost_, nullptr)); });
      }
    }
    inner_->script(sql, deadline);
    in_transaction_ = begins;
    lost_ = nullptr;
    auto const done = std::exchange(uncommitted_, {});
    if (sql == "COMMIT")
      for (auto const& name : done) cut_on_throw([&] { probe_->after(name); });
  }
  void expect_row_locks() const override { inner_->expect_row_locks(); }
  std::optional<std::string> find_schema(std::string const& table, bool or_new,
                                         boot_time_point deadline) override {
    return inner_->find_schema(table, or_new, deadline);
  }
  bool has_queues() const noexcept override { return inner_->has_queues(); }
  backend::queue_entry enter_queue(backend::table_names const& tables, std::string const& name,
                                   std::string const& who, boot_time_point until,
                                   std::chrono::nanoseconds reply_timeout, std::stop_token stop) override {
    probe_->count("enter_queue");
    cut_on_throw([&] { probe_->before("enter_queue"); });
    auto const how = inner_->enter_queue(tables, name, who, until, reply_timeout, std::move(stop));
    cut_on_throw([&] { probe_->after("enter_queue"); });
    return how;
  }
  bool leave_queue(boot_time_point deadline) override {
    probe_->count("leave_queue");
    cut_on_throw([&] { probe_->before("leave_queue"); });
    return inner_->leave_queue(deadline);
  }
  // One round trip: a fault in leaving the wait queue comes before anything is sent.
  backend::left_queue execute_and_leave_queue(backend::statement const& s, std::span<backend::value const> p,
                                              boot_time_point deadline) override {
    auto const name = step(s.name);
    probe_->count(name + " at the wait queue");
    probe_->count(name);
    probe_->look(name, p);
    cut_on_throw([&] { probe_->before(name); });
    cut_on_throw([&] { probe_->before("leave_queue"); });
    auto done = inner_->execute_and_leave_queue(s, p, deadline);
    cut_on_throw([&] { probe_->after(name); });
    return done;
  }
  bool is_waited_for(backend::table_names const& t, std::string const& name) noexcept override {
    return inner_->is_waited_for(t, name);
  }
  bool usable() const noexcept override { return !cut_ && inner_->usable(); }
  bool alive() override { return usable() && inner_->alive(); }
  std::string const& server_identity() const noexcept override { return inner_->server_identity(); }
  backend::session_facts facts() const override { return inner_->facts(); }
  void close() noexcept override { inner_->close(); }

 private:
  void call_before(std::string const& name) {
    try {
      probe_->before(name);
    } catch (error const& e) {
      // In a transaction only the COMMIT's reply can be lost, so the error waits for it.
      if (!in_transaction_ || e.reason() != errc::in_doubt) throw;
      lost_ = std::current_exception();
    }
  }
  // Like a real session: of no use after a lost reply.
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
  std::shared_ptr<probe> probe_;
  bool cut_ = false;
  bool in_transaction_ = false;
  bool holds_row_ = false;
  std::exception_ptr lost_;
  std::vector<std::string> uncommitted_;
};

class observed_source final : public backend::source {
 public:
  observed_source(std::shared_ptr<backend::source> s, std::shared_ptr<probe> p)
      : inner_(std::move(s)), probe_(std::move(p)) {}
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    probe_->connecting();
    return std::make_unique<observed_connection>(inner_->connect(deadline), probe_);
  }
  backend::dialect const& sql() const noexcept override { return inner_->sql(); }
  int best_connections() const noexcept override { return inner_->best_connections(); }
  std::string describe() const override { return inner_->describe(); }
  bool gone(std::string const& identity) const noexcept override { return inner_->gone(identity); }
  void create_if_missing() override { inner_->create_if_missing(); }
  bool is_private() const noexcept override { return inner_->is_private(); }
  bool uses_the_programs() const noexcept override { return inner_->uses_the_programs(); }

 private:
  std::shared_ptr<backend::source> inner_;
  std::shared_ptr<probe> probe_;
};

}  // namespace

connection_source observed_by(connection_source const& source, std::shared_ptr<probe> p) {
  return connection_source(std::make_shared<observed_source>(source.implementation(), std::move(p)));
}

}  // namespace rowlock::testing

// Many leases in one statement on PostgreSQL, by libpq alone: what rowlock does for threads that take at the
// same time, and for names that are taken all or none.
#include <fmt/format.h>

#include <array>

#include "systems/batches.hpp"
#include "systems/databases.hpp"
#include "systems/libpq.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

/// The statements' $1 to $5: names and terms, host, process and ttl.
std::array<char const*, 5> parameters(std::string const& list) {
  return {list.c_str(), "host", "4711", "0123456789abcdef01234567", "30000"};
}

/// As of a name that was taken often: one row keeps the name, another one is free.
constexpr auto insert =
    "INSERT INTO rowlock_locks (name, generation, strategy, token, term, expires_at) "
    "SELECT w.name, g, 'lease', 1, CASE g WHEN 0 THEN 'name' END, "
    "CASE g WHEN 0 THEN timestamptz '9999-12-31 00:00:00+00' ELSE clock_timestamp() END "
    "FROM json_to_recordset($1::json) AS w(name text), generate_series(0, 1) AS g ON CONFLICT DO NOTHING";

constexpr auto pulse =
    "SELECT q.base FROM rowlock_pulse AS q WHERE q.made_by = q.xmin "
    "AND q.made_at = pg_relation_filepath(q.tableoid) AND q.safe_from <= clock_timestamp() "
    "AND q.until > clock_timestamp() AND q.reach >= least($5::bigint, 300000) LIMIT 1";

/// What a take writes. `w` has names, terms and threads.
constexpr auto taken =
    "term = w.term, token = greatest(l.token + 1, "
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pulse.base + 1), owner_host = $2, "
    "owner_pid = $3::bigint, owner_process = $4, owner_thread = w.thread, renewals = 0, "
    "ttl = $5::bigint, takeover = 'clock', acquired_at = clock_timestamp(), "
    "expires_at = clock_timestamp() + $5::bigint * interval '1 millisecond', hard_until = NULL, "
    "revoked = false, note = '', longest = $5::bigint, longest_term = w.term, takes = l.takes + 1, "
    "generation = CASE WHEN l.generation > 0 AND l.takes % 128 = 127 THEN l.generation + 1 "
    "ELSE l.generation END";

constexpr auto is_free =
    "l.strategy = 'lease' AND l.term IS DISTINCT FROM 'name' "
    "AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp()))";

/// The newest row of each name in `w`, if no other transaction has locked it. `||` keeps the planner from an
/// index scan of the whole table.
constexpr auto place =
    "LATERAL (SELECT n.ctid FROM rowlock_locks AS n WHERE n.name = w.name "
    "ORDER BY n.generation DESC LIMIT 1) AS place "
    "WHERE w.name = w.name || '' AND l.ctid = place.ctid AND (l.xmax = 0 OR l.xmax = l.xmin)";

std::string each_take() {
  return fmt::format(
      "UPDATE rowlock_locks AS l SET {} FROM ({}) AS pulse, "
      "json_to_recordset($1::json) AS w(name text, term text, thread bigint), {} AND {} "
      "RETURNING l.name, l.token",
      taken, pulse, place, is_free);
}

/// First locks the rows, then takes all of them or none.
std::string all_take() {
  return fmt::format(
      "WITH pulse AS MATERIALIZED ({}), w AS ("
      "SELECT l.name, l.generation, j.term, j.thread FROM json_to_recordset($1::json) "
      "AS j(name text, term text, thread bigint, old text, renewals bigint, incarnation bigint) "
      "JOIN rowlock_locks AS l ON l.name = j.name AND l.generation = (SELECT n.generation "
      "FROM rowlock_locks AS n WHERE n.name = j.name ORDER BY n.generation DESC LIMIT 1) "
      "WHERE j.name = j.name || '' AND j.old IS NULL AND {} ORDER BY l.name FOR UPDATE OF l SKIP LOCKED) "
      "UPDATE rowlock_locks AS l SET {} FROM w, pulse WHERE l.name = w.name AND l.generation = w.generation "
      "AND (SELECT count(*) FROM w) >= {} RETURNING l.name, l.token",
      pulse, is_free, taken, batch_size);
}

std::string all_release(std::string const& more = {}) {
  return fmt::format(
      "UPDATE rowlock_locks AS l SET "
      "term = CASE WHEN l.generation = 0 AND l.takes >= 128 THEN 'name' END, "
      "expires_at = CASE WHEN l.generation = 0 AND l.takes >= 128 "
      "THEN timestamptz '9999-12-31 00:00:00+00' ELSE clock_timestamp() END "
      "FROM json_to_recordset($1::json) AS w(name text, term text), {} AND l.term = w.term "
      "RETURNING l.name, "
      "(NOT pg_try_advisory_xact_lock_shared(hashtextextended(l.name, l.tableoid::bigint)))::int{}",
      place, more);
}

/// With the settings of rowlock's sessions that decide on the plan.
pg_connection connected(std::string const& address, bool flushed) {
  pg_connection c(address);
  c.run(
      "SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off; "
      "SET plan_cache_mode = force_generic_plan");
  if (!flushed) c.run("SET synchronous_commit = off");
  return c;
}

class postgresql_line : public batch_line {
 public:
  postgresql_line(std::string const& address, bool flushed, std::string const& sql, std::size_t parameters)
      : connection_(connected(address, flushed)), count_(parameters) {
    connection_.prepare("each", sql.c_str());
  }
  void run(batch_jobs jobs) override {
    auto const list = as_json(jobs);
    auto const values = parameters(list);
    auto const rows = connection_.execute("each", std::span(values).first(count_));
    for (int i = 0; i < ::PQntuples(rows.get()); ++i) set_done(jobs, ::PQgetvalue(rows.get(), i, 0));
  }

 private:
  pg_connection connection_;
  std::size_t count_;  ///< of parameters
};

/// Makes rows of names that are free.
class row_maker {
 public:
  explicit row_maker(std::string const& address) : connection_(address) {
    connection_.prepare("insert", insert);
  }
  void operator()(batch_jobs jobs) {
    auto const list = as_json(jobs);
    std::array<char const*, 1> const values{list.c_str()};
    connection_.execute("insert", values);
  }

 private:
  pg_connection connection_;
};

/// Many names at once, all or none: two statements on one connection.
class bare_all_client : public client {
 public:
  explicit bare_all_client(std::string const& address)
      : address_(address), connection_(connected(address, true)), jobs_(batch_size) {
    grants(database_of("postgresql"), address);
    connection_.prepare("take", all_take().c_str());
    connection_.prepare("give", all_release(", set_config('synchronous_commit', 'off', true)").c_str());
    for (auto& each : jobs_) pointers_.push_back(&each);
  }
  bool take(std::string const& name, std::stop_token const&) override {
    for (int i = 0; auto& each : jobs_) {
      each.name = fmt::format("{}-{}", name, i++);
      each.term = new_term();
    }
    if (name != name_) {
      row_maker{address_}(pointers_);
      name_ = name;
    }
    list_ = as_json(pointers_);
    do_all("take", 5);
    return true;
  }
  void give_back() override { do_all("give", 1); }

 private:
  void do_all(char const* statement, std::size_t parameter_count) {
    for (auto& each : jobs_) each.done = false;
    auto const values = parameters(list_);
    auto const rows = connection_.execute(statement, std::span(values).first(parameter_count));
    for (int i = 0; i < ::PQntuples(rows.get()); ++i) set_done(pointers_, ::PQgetvalue(rows.get(), i, 0));
    for (auto const& each : jobs_)
      if (!each.done) throw peer_error("one of the leases was not ours");
  }

  std::string address_;
  pg_connection connection_;
  std::vector<batch_job> jobs_;
  std::vector<batch_job*> pointers_;
  std::string name_;
  std::string list_;
};

class bare_all_session : public session {
 public:
  explicit bare_all_session(std::string address) : address_(std::move(address)) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<bare_all_client>(address_); }

 private:
  std::string address_;
};

opener batch_opener(bool flushed) {
  return [flushed](std::string const& address) {
    grants(database_of("postgresql"), address);
    return std::make_unique<batch_session>(
        std::make_unique<postgresql_line>(address, flushed, each_take(), 5),
        std::make_unique<postgresql_line>(address, false, all_release(), 1),
        [make_row = std::make_shared<row_maker>(address)](batch_job& one) {
          std::array<batch_job*, 1> const jobs{&one};
          (*make_row)(jobs);
        });
  };
}

}  // namespace

void add_postgresql_batches(std::vector<system_entry>& all) {
  auto const prepare = [](std::string const& address) { migrate(database_of("postgresql"), address); };
  all.push_back(
      {"bare-batch-postgresql", "takes together, bare libpq", "postgresql", batch_opener(true), prepare});
  all.push_back({"bare-batch-postgresql-unflushed", "takes together, bare libpq, synchronous_commit = off",
                 "postgresql", batch_opener(false), prepare});
  all.push_back({"bare-all-postgresql", "acquire_all's two statements, bare libpq", "postgresql",
                 [](std::string const& address) { return std::make_unique<bare_all_session>(address); },
                 prepare});
}

}  // namespace rowlock::bench

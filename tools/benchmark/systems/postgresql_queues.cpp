// What processes that want one name could reach on PostgreSQL by libpq alone: a wait for an advisory lock,
// then the lease's UPDATE; the release and the end of the queue place in one round trip. Threads of one
// process hand the lease on to each other in the order in which they came, as often as rowlock does.
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "systems/batches.hpp"
#include "systems/databases.hpp"
#include "systems/postgresql_lease.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

constexpr int most_times = 64;

/// The lease of one process on one name.
class queued_lease {
 public:
  queued_lease(std::string const& address, bool flushed) : lease_(address, flushed) {
    lease_.connection().prepare(
        "wait", "SELECT pg_advisory_lock(hashtextextended($1, 'rowlock_locks'::regclass::oid::bigint))");
    lease_.connection().prepare("leave",
                                "SELECT pg_advisory_unlock_all(), pg_try_advisory_xact_lock_shared("
                                "hashtextextended($1, 'rowlock_locks'::regclass::oid::bigint))");
  }
  void take(std::string const& name) {
    std::array<char const*, 1> const values{name.c_str()};
    lease_.connection().execute("wait", values);
    lease_.take(name);
  }
  /// The release is committed before the queue is left.
  void give_back() {
    std::array<char const*, 2> const values{lease_.name().c_str(), lease_.term().c_str()};
    auto* const c = lease_.connection().get();
    bool const sent = ::PQenterPipelineMode(c) == 1 &&
                      ::PQsendQueryPrepared(c, "give", 2, values.data(), nullptr, nullptr, 0) == 1 &&
                      ::PQpipelineSync(c) == 1 &&
                      ::PQsendQueryPrepared(c, "leave", 1, values.data(), nullptr, nullptr, 0) == 1 &&
                      ::PQpipelineSync(c) == 1;
    int rows = 0;
    for (int syncs = 0; sent && syncs < 2;) {
      pg_result const r(::PQgetResult(c));
      if (!r) continue;  // between a statement and its synchronization point
      if (::PQresultStatus(r.get()) == PGRES_PIPELINE_SYNC)
        ++syncs;
      else if (::PQresultStatus(r.get()) == PGRES_TUPLES_OK)
        rows += ::PQntuples(r.get());
      else
        throw peer_error(::PQresultErrorMessage(r.get()));
    }
    if (rows != 2 || ::PQexitPipelineMode(c) != 1) throw peer_error("the lease was not given back");
  }

 private:
  bare_lease lease_;
};

class queue_session : public session {
 public:
  queue_session(std::string const& address, bool flushed) : lease_(address, flushed) {}
  std::unique_ptr<client> new_client() override;

 private:
  class one_client;
  struct waiter {
    std::string const& name;
    bell turn{};
    bool has_lease = false;
  };

  void take(std::string const& name) {
    waiter me{name};
    std::unique_lock lock(mutex_);
    if (std::exchange(busy_, true)) {
      line_.push_back(&me);
      lock.unlock();
      me.turn.wait();
    } else {
      lock.unlock();
    }
    if (me.has_lease) return;
    handed_on_ = 0;
    lease_.take(name);
  }
  void give_back(std::string const& name) {
    std::unique_lock lock(mutex_);
    if (!line_.empty() && line_.front()->name == name && handed_on_ < most_times) {
      ++handed_on_;
      return next(true);
    }
    lock.unlock();
    lease_.give_back();
    lock.lock();
    if (line_.empty())
      busy_ = false;
    else
      next(false);
  }
  void next(bool with_lease) {
    auto& first = *line_.front();
    line_.pop_front();
    first.has_lease = with_lease;
    first.turn.ring();
  }

  std::mutex mutex_;
  std::deque<waiter*> line_;
  bool busy_ = false;
  int handed_on_ = 0;  ///< used by the thread whose turn it is, as the lease
  queued_lease lease_;
};

class queue_session::one_client : public client {
 public:
  explicit one_client(queue_session& shared) : shared_(shared) {}
  bool take(std::string const& name, std::stop_token const&) override {
    name_ = name;
    shared_.take(name_);
    return true;
  }
  void give_back() override { shared_.give_back(name_); }

 private:
  queue_session& shared_;
  std::string name_;
};

std::unique_ptr<client> queue_session::new_client() { return std::make_unique<one_client>(*this); }

}  // namespace

void add_postgresql_queues(std::vector<system_entry>& all) {
  auto const add = [&all](std::string id, std::string title, bool flushed) {
    all.push_back(
        {std::move(id), std::move(title), "postgresql",
         [flushed](std::string const& address) { return std::make_unique<queue_session>(address, flushed); },
         [](std::string const& address) { migrate(database_of("postgresql"), address); }});
  };
  add("bare-queue-postgresql", "the same statements and hand-offs, bare libpq", true);
  add("bare-queue-postgresql-unflushed", "the same, bare libpq, synchronous_commit = off", false);
}

}  // namespace rowlock::bench

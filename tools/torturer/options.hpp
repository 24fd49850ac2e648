#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

namespace rowlock::torture {

/// What clients take.
enum class workload {
  mutex,
  recursive_mutex,
  shared,
  semaphore,
  all_at_once,  ///< several mutexes, all or none
  election,
  quorum,
  // Under which something is written: ledger.hpp.
  row_lock,  ///< in the client's own transaction
  memory_set,
  set,
  guarded_set,
  force,  ///< guarded_set, and an operator who takes locks away by force
};

struct options {
  std::string db;
  std::vector<std::string> members;  ///< of a quorum, besides db
  /// Of a cluster: how to come to the one database by each of its servers. Clients take them in turns.
  std::vector<std::string> nodes;
  workload what = workload::mutex;
  rowlock::strategy how = strategy::lease;
  takeover how_over = takeover::clock;
  bool asynchronous = false;  ///< clients are event loops, and their workers coroutines
  int processes = 5;
  int threads = 2;  ///< of each client, or its coroutines
  int names = 3;
  std::chrono::milliseconds ttl{2'000};
  std::chrono::milliseconds duration{30'000};
  std::vector<std::string> nemeses;  ///< of those that nemesis.hpp has
  /// A command that takes the verbs kill, restart, pause and resume; with nodes: kill, pause, resume and cut,
  /// each with the number of a node, and mend.
  std::string server;
  bool migrations = true;     ///< an operator also takes the tables to an older version and back
  bool wait_queues = true;    ///< who waits stands in a line, where the database has one
  bool through_wire = false;  ///< clients come by way of wire.hpp
  bool client_role = false;   ///< clients log in as a role of their own, with the least rights
  std::string clock;          ///< the file that moves the clients' wall clock; empty: none
  std::string server_clock;   ///< and the server's
  std::string small_disk;     ///< a folder on the disk that the database is on; empty: it is not filled
  std::uint32_t seed = 0;
  std::string history;  ///< a folder; empty: one that is removed unless something is wrong
  std::string picture;  ///< a file for the first violation, as SVG; empty: none
  bool json = false;
  /// How clients come to the database: tests put broken locks in between.
  std::function<connection_source(std::string const&)> connect = source_from_url;
};

/// A mutex that is taken by itself.
constexpr bool is_mutex(workload w) {
  return w == workload::mutex || w == workload::recursive_mutex || w == workload::memory_set ||
         w == workload::set || w == workload::guarded_set || w == workload::force;
}

/// Whether something is written under the lock, in a transaction of the client's own.
constexpr bool writes_to_database(workload w) {
  return w == workload::set || w == workload::guarded_set || w == workload::force || w == workload::row_lock;
}
constexpr bool writes(workload w) { return w == workload::memory_set || writes_to_database(w); }

/// Whether its locks can be taken without a thread that waits.
constexpr bool has_asynchronous_form(workload w) {
  return w == workload::shared || w == workload::semaphore || (is_mutex(w) && w != workload::recursive_mutex);
}

/// Whether it is promised that nothing that was written is lost.
constexpr bool keeps_what_is_written(workload w) { return writes_to_database(w) && w != workload::set; }

/// Units that one name has in a workload.
constexpr std::int64_t limit_of(workload w) {
  return w == workload::semaphore ? 5 : w == workload::shared ? 1'000 : 1;
}

char const* to_string(workload) noexcept;

/// @return the exit status if the program is to end; `what` to torture otherwise
std::optional<int> parse(int argc, char** argv, options&);

}  // namespace rowlock::torture

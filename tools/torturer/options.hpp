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
  shared,
  semaphore,
  // A mutex, under which something is written: ledger.hpp.
  memory_set,
  set,
  guarded_set,
};

struct options {
  std::string db;
  workload what = workload::mutex;
  rowlock::strategy how = strategy::lease;
  int processes = 5;
  int threads = 2;
  int names = 3;
  std::chrono::milliseconds ttl{2'000};
  std::chrono::milliseconds duration{30'000};
  std::vector<std::string> nemeses;  ///< of those that nemesis.hpp has
  std::string server;                ///< a command that takes the verbs kill, restart, pause and resume
  bool through_wire = false;         ///< clients come by way of wire.hpp
  std::uint32_t seed = 0;
  std::string history;  ///< a folder; empty: one that is removed unless something is wrong
  bool json = false;
  /// How clients come to the database: tests put broken locks in between.
  std::function<connection_source(std::string const&)> connect = source_from_url;
};

constexpr bool is_mutex(workload w) { return w != workload::shared && w != workload::semaphore; }

/// Whether something is written under the lock: ledger.hpp.
constexpr bool writes(workload w) {
  return w == workload::memory_set || w == workload::set || w == workload::guarded_set;
}

/// Units that one name has in a workload.
constexpr std::int64_t limit_of(workload w) {
  return w == workload::semaphore ? 5 : w == workload::shared ? 1'000 : 1;
}

char const* to_string(workload) noexcept;

/// @return the exit status if the program is to end; `what` to torture otherwise
std::optional<int> parse(int argc, char** argv, options&);

}  // namespace rowlock::torture

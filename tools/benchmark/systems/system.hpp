#pragma once
// What is compared: something that gives locks, or does the same work as rowlock does.

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

namespace rowlock::bench {

/// One thread's access to a system. Used by that thread alone.
class client {
 public:
  client() = default;
  client(client const&) = delete;
  client& operator=(client const&) = delete;
  virtual ~client() = default;

  /// Waits until it has the lock. @return false if `stop` came first. @throws std::exception
  virtual bool take(std::string const& name, std::stop_token const& stop) = 0;
  /// Gives back what take() took last.
  virtual void give_back() = 0;
};

/// One process' access to a system, shared by its threads. It is made after fork().
class session {
 public:
  session() = default;
  session(session const&) = delete;
  session& operator=(session const&) = delete;
  virtual ~session() = default;
  /// Outlived by the session. Called by the thread that uses the client.
  virtual std::unique_ptr<client> new_client() = 0;
};

/// A peer answered what it should not.
class peer_error : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

constexpr int batch_size = 64;  ///< names that are taken at once

/// Where things are, by name: "postgresql" and a conninfo, "rowlock" and the program's path.
using places = std::map<std::string, std::string>;

using opener = std::function<std::unique_ptr<session>(std::string const& address)>;

/// A program to start: its words, and what is in its environment besides ours ("NAME=VALUE").
struct command_line {
  std::vector<std::string> words;
  std::vector<std::string> environment{};
};

/// A line of the catalogue.
struct system_entry {
  std::string id;     ///< for --only and JSON
  std::string title;  ///< for people
  std::string place;  ///< whose address it needs
  /// Empty if the client's library was missing when this program was built, or if there are commands.
  opener open{};
  /// Makes tables and the like. Called once for each run, before any open(). May be empty.
  std::function<void(std::string const& address)> prepare{};
  /// For those that are a program: what to start, one after the other.
  std::function<std::vector<command_line>(places const&)> commands{};
  /// For systems that differ in a number alone: the title of their line in a picture, and the number.
  std::string line{};
  double x = 0;
  /// It is an event loop, whose coroutines take the locks.
  bool coroutines = false;
};

/// All of them, in the order in which they are printed.
std::vector<system_entry> const& catalogue();
/// Null if there is none.
system_entry const* find_system(std::string const& id);

// What the files beside this one add to the catalogue.
void add_rowlock(std::vector<system_entry>&);
void add_growth(std::vector<system_entry>&);
void add_redis(std::vector<system_entry>&);
void add_zookeeper(std::vector<system_entry>&);
void add_etcd(std::vector<system_entry>&);
void add_postgresql(std::vector<system_entry>&);
void add_postgresql_batches(std::vector<system_entry>&);
void add_postgresql_queues(std::vector<system_entry>&);
void add_mysql(std::vector<system_entry>&);
void add_postgresql_transactions(std::vector<system_entry>&);
void add_mysql_batches(std::vector<system_entry>&);
void add_mysql_transactions(std::vector<system_entry>&);
void add_commands(std::vector<system_entry>&);
void add_floors(std::vector<system_entry>&);

}  // namespace rowlock::bench

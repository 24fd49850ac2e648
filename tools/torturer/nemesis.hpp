#pragma once
// The clients' processes, and what is done to them and to the server meanwhile.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "history.hpp"
#include "ledger.hpp"
#include "options.hpp"
#include "wire.hpp"

namespace rowlock::torture {

/// What a nemesis does, for --help and for a mistake in --nemesis.
struct nemesis_name {
  char const* name;
  char const* help;
  bool (*possible)(options const&);
  char const* needs;  ///< an option; empty: nothing
};
std::vector<nemesis_name> const& nemeses();

/// The clients; kills what is left of them at the end. This process must have no other thread.
class crew {
 public:
  /// `between`: what the options' address leads through; may be null. `direct`: the address without it.
  crew(options const&, ledger&, std::filesystem::path const& folder, wire* between, std::string direct);
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;
  ~crew();

  /// Once somebody has had a lock, until the time is over: one fault after another, with rests in between and
  /// at the end. `tell` hears of each.
  void torture(std::function<void(std::string const&)> const& tell);
  /// Lets all end what they do. @throws std::runtime_error if one does not end, or has failed
  void finish();
  /// How often an operator could not do what they should have done.
  std::int64_t failed_work() const noexcept { return failed_work_; }

 private:
  struct seat {
    pid_t pid = 0;
    std::uint32_t life = 0;
    int line = -1;
  };
  void start(std::uint32_t which);
  void kill(std::uint32_t which);
  /// @throws std::runtime_error if a client has ended by itself
  void look_for_ended();
  void stop(std::uint32_t which, std::chrono::milliseconds);
  void fill_disk(std::chrono::milliseconds) const;
  void take_rights(std::chrono::milliseconds);
  bool server_obeys(std::string const& verb) const;
  void order_server(std::string const& verb) const;
  void server(std::string const& breaks, std::string const& mends, std::chrono::milliseconds) const;
  /// The same for one of a cluster's servers. Returns when all of them belong to it again.
  void node(std::string const& breaks, std::chrono::milliseconds longest);
  /// Writes down when it begins and ends.
  void fault(std::string const& name, std::uint32_t whom, std::function<void()> const& happens);
  /// Writes down that it begins: it excuses nothing.
  void deed(std::string const& name, std::function<void()> const& happens);
  /// In a process of its own, which may have threads; it is killed when the time is over.
  /// @param ends whether it ends by itself: then it is let end also when a signal came
  /// @return its status, as waitpid() has it
  int errand(std::chrono::milliseconds at_most, std::function<void()> const& does, bool ends = true);
  void operator_does(std::function<void()> const& what);
  void reapers(std::string const& where, std::chrono::milliseconds);
  /// Of a child: the others' ends of the lines, which would keep the others from hearing the end.
  void be_child(pid_t parent, std::string const& who) const;
  std::vector<pid_t> connected() const;
  /// How an operator comes to the database: in a cluster by any of its servers.
  std::string const& direct();
  void apply(std::string const& nemesis, std::chrono::milliseconds longest);
  std::chrono::milliseconds between(std::chrono::milliseconds, std::chrono::milliseconds);

  options const& options_;
  ledger& ledger_;
  wire* wire_;
  std::string direct_;
  std::filesystem::path folder_;
  history_writer history_;
  std::mt19937 random_;
  /// Tokens are an hour ahead of the clock. Then nothing keeps those of a row that is deleted by hand from
  /// falling.
  bool another_incarnation_ = false;
  std::vector<seat> seats_;
  std::int64_t failed_work_ = 0;
};

}  // namespace rowlock::torture

#pragma once
// The wire between a program and a server, to be cut in several ways.

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/event.hpp"

namespace rowlock::test {

/// Passes on what comes in at a loopback address and port() to a server of this machine, in a thread of its
/// own. The cuts return when they are done.
class relay {
 public:
  /// `port`: any that is free, if 0.
  explicit relay(int server_port, std::string const& address = "127.0.0.1", int port = 0);
  ~relay();
  relay(relay const&) = delete;
  relay& operator=(relay const&) = delete;

  int port() const noexcept { return port_; }
  /// As a host that has stopped, or a firewall that forgot the connection: nothing passes, and nobody is
  /// told; new connections are made, and hear nothing.
  void silence() { become(mode::silent); }
  /// As a server that has ended: connections are reset, new ones are refused.
  void refuse() { become(mode::refusing); }
  /// As a firewall that was restarted: connections are reset, new ones work.
  void reset() {
    refuse();
    mend();
  }
  /// Everything works again; what was said in silence arrives now.
  void mend() { become(mode::passing); }

  /// Ends connection `which` (from 1, in the order in which they are made) at the client's message `number`
  /// (from 1), once: the server has never seen it, or what it answers is dropped. Before anything is
  /// connected.
  void cut(int which, int number, bool answered) { cut_ = {which, number, answered}; }
  bool was_cut() const noexcept { return was_cut_; }
  /// How many connections were made so far.
  int connections() const noexcept { return connections_; }

  /// How often something was passed on so far: whoever tries again and again makes it grow.
  long passed() const noexcept { return passed_; }

  /// The address with this port: a mysql:// URL, or libpq's conninfo.
  std::string through(std::string const& address) const;

 private:
  enum class mode { passing, silent, refusing, ended };
  struct cutting {
    int which = 0;
    int number = 0;
    bool answered = false;
  };

  void become(mode);
  void run();
  void apply(mode);
  /// @return true if what has just come from `from` ends the connection
  bool is_cut(int from);
  int bound() const;
  void listen();
  void connect_next();
  /// @return false at its end, or that of the other
  bool pass_on(int from, int to);
  void end(int fd);
  void end_all();

  int server_port_;
  std::string address_;
  int port_ = 0;
  int reserved_ = -1;
  int listener_ = -1;
  std::map<int, int> other_end_;
  base::event asked_;
  std::mutex mutex_;
  std::condition_variable applied_;
  mode wanted_ = mode::passing;
  mode present_ = mode::passing;
  std::atomic<long> passed_{0};
  cutting cut_;
  std::atomic<bool> was_cut_{false};
  std::atomic<int> connections_{0};
  int cut_near_ = -1;
  int said_ = 0;
  std::jthread thread_;
};

/// The port in such an address.
int port_of(std::string const& address);

}  // namespace rowlock::test

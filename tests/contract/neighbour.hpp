#pragma once
// Somebody else at the wait queue of a name.

#include <future>
#include <memory>
#include <string>

#include "contract/fixture.hpp"

namespace rowlock::test {

constexpr bool on_queues(running_pair const& p) { return direct(p); }
constexpr bool rows_on_queues(running_pair const& p) { return on_queues(p) && in_rows(p); }

/// Another process, at the wait queue.
class neighbour {
 public:
  explicit neighbour(fixture& f) : fixture_(f), tables_(f.tables()), session_(f.connect()) {}
  backend::queue_entry enter(std::string const& name = "x", std::chrono::milliseconds patience = 30s) {
    return session_->enter_queue(tables_, name, "neighbour", boot_clock::now() + patience, 10s, {});
  }
  /// Runs `enter` in a thread of its own, and waits until the server shows that it stands in the line.
  std::future<backend::queue_entry> stand() {
    bool const postgresql = dialect_of(fixture_) == dialect::postgresql;
    auto const ask = [](backend::connection& c, std::string const& sql) {
      return backend::as_int(c.execute({"ask", sql}, {}, boot_clock::now() + 30s).rows.at(0).at(0));
    };
    auto const number =
        std::to_string(ask(*session_, postgresql ? "SELECT pg_backend_pid()" : "SELECT connection_id()"));
    auto const look =
        postgresql
            ? "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = " + number
            : "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND id = " +
                  number;
    auto const watch = fixture_.connect();
    auto stands = std::async(std::launch::async, [this] { return enter(); });
    REQUIRE(eventually([&] { return ask(*watch, look) > 0; }));
    return stands;
  }
  bool leave() { return session_->leave_queue(boot_clock::now() + 30s); }
  /// As its end looks to the server.
  void die() { session_->close(); }
  /// Whether somebody has it.
  bool finds_taken(std::string const& name = "x") {
    bool const taken = enter(name, 200ms) == backend::queue_entry::not_mine;
    if (!taken) leave();
    return taken;
  }
  /// Whether nobody had it, nor stood there, just now.
  bool finds_free(std::string const& name = "x") {
    auto const how = enter(name);
    if (how != backend::queue_entry::not_mine) leave();
    return how == backend::queue_entry::was_free;
  }

 private:
  fixture& fixture_;
  backend::table_names tables_;
  std::unique_ptr<backend::connection> session_;
};

}  // namespace rowlock::test

#pragma once
// Somebody else at the gate of a name.

#include <memory>
#include <string>

#include "contract/fixture.hpp"

namespace rowlock::test {

constexpr bool on_gates(running_pair const& p) { return direct(p); }
constexpr bool rows_on_gates(running_pair const& p) { return on_gates(p) && in_rows(p); }

/// Another process, at the gate.
class neighbour {
 public:
  explicit neighbour(fixture& f)
      : tables_(f.tables()), session_(f.source.implementation()->connect(boot_clock::now() + 10s)) {}
  backend::gate_entry enter(std::string const& name = "x", std::chrono::milliseconds patience = 5s) {
    return session_->enter_gate(tables_, name, "neighbour", boot_clock::now() + patience, 10s, {});
  }
  bool leave() { return session_->leave_gate(boot_clock::now() + 10s); }
  /// As its end looks to the server.
  void die() { session_->close(); }
  /// Whether somebody has it.
  bool finds_taken(std::string const& name = "x") {
    bool const taken = enter(name, 50ms) == backend::gate_entry::not_mine;
    if (!taken) leave();
    return taken;
  }
  /// Whether nobody had it, nor stood there, just now.
  bool finds_free(std::string const& name = "x") {
    auto const how = enter(name);
    if (how != backend::gate_entry::not_mine) leave();
    return how == backend::gate_entry::was_free;
  }

 private:
  backend::table_names tables_;
  std::unique_ptr<backend::connection> session_;
};

}  // namespace rowlock::test

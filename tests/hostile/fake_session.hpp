#pragma once
// A log-in, and after it sound replies to whatever a client asks, so that a test can put its own in the place
// of some.

#include <string>
#include <vector>

#include "hostile/fake_server.hpp"

namespace rowlock::test {

/// Has logged the client in. `hear` and `reply` take turns.
class fake_mysql_session {
 public:
  explicit fake_mysql_session(peer&);
  /// The next command. @return false if there is none
  bool hear();
  char type() const noexcept { return type_; }
  std::string const& text() const noexcept { return text_; }
  bool several() const { return text_.find(';') != std::string::npos; }
  /// Rows for SELECT and SHOW, OK for others. Nothing where none is expected.
  std::string reply() const;
  /// Whether reply() has rows of the binary protocol.
  bool has_binary_rows() const noexcept { return type_ == 0x17; }

 private:
  std::string prepared() const;
  std::string executed() const;

  peer& client_;
  char type_ = 0;
  std::string text_;
};

class fake_postgresql_session {
 public:
  explicit fake_postgresql_session(peer&);
  bool hear();
  char type() const noexcept { return type_; }
  std::string const& text() const noexcept { return text_; }
  std::string reply() const;

 private:
  peer& client_;
  char type_ = 0;
  std::string text_;
};

}  // namespace rowlock::test

#pragma once
// Fencing tokens that no crash of the machine can bring back, although the takes that drew them are not
// flushed.
//
// - Each token that an unflushed statement draws is at or below rowlock_meta.token_ceiling. That is raised,
//   and flushed, before: an hour ahead of the clock, so about once an hour.
// - A crash ends all programs that use the file. The first session after a boot makes the ceiling boot_floor,
//   which all draws are above. So a clock that is behind after the boot does no harm.
// - A token that is further ahead (its row's clock was) is drawn by a flushed statement. So one high token
//   raises no other name's.
// - In the program's own transaction a token counts for as long as the program's commit. What is flushed then
// is
//   the program's choice.
// - Where containers on one file see different boots, each new session raises the floor: by a second at most
//   beyond an hour, which only moves the tokens ahead of the clock.

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {

/// Of one connection.
class token_ceiling {
 public:
  /// Registers rowlock_drawn(), so the address must not change.
  explicit token_ceiling(sqlite3*);
  token_ceiling(token_ceiling const&) = delete;
  token_ceiling& operator=(token_ceiling const&) = delete;

  /// The quoted table in the mark of a statement that draws tokens; empty: it draws none.
  static std::string_view table_of(std::string_view sql) noexcept;

  /// For the program's own connection, in its transaction: sets the floor. @return SQLite's code
  static int look_at_boot(sqlite3*, std::string_view table);
  /// The text for a connection without rowlock_drawn().
  static std::string without_function(std::string sql);

  /// The statements run next are flushed, so that they may draw any token; or not.
  void flushed(bool yes) noexcept { any_ = yes; }
  /// Whether a statement has failed because its token was above the ceiling, and no flushed one has drawn
  /// since.
  bool was_reached() const noexcept { return reached_; }

  /// Whether raise() has to come first.
  bool is_due() const noexcept;
  /// Looks whether the ceiling is of this boot, and high enough. Reads only. @return SQLite's code
  int look(sqlite3*, std::string_view table);
  /// A change, to be flushed. @return SQLite's code.
  int raise(sqlite3*, std::string_view table);

 private:
  static void drawn(sqlite3_context*, int, sqlite3_value**) noexcept;

  std::int64_t ceiling_ = 0;
  bool any_ = false;
  bool reached_ = false;
};

}  // namespace rowlock::backend::sqlite

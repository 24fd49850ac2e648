#pragma once
// The screen of `rowlock top`, without a terminal and a database: readings and keys go in, lines come out.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <rowlock/types.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::tool {

/// One look at the database.
struct reading {
  std::vector<lock_info> locks;
  std::chrono::system_clock::time_point at;  ///< when it was had, by this machine's clock
  std::chrono::steady_clock::time_point answered_at;
  std::chrono::milliseconds took{0};
  bool cut = false;  ///< there may be more than the limit
};

struct key {
  enum class kind {
    text,
    up,
    down,
    page_up,
    page_down,
    home,
    end,
    enter,
    escape,
    backspace
  } what = kind::text;
  std::string text{};  ///< one character
};

/// What a key asks of the program.
struct wish {
  enum class kind { nothing, quit, revoke } what = kind::nothing;
  std::string name{};  ///< revoke this
  term_id only{};      ///< of several permits of the name this one
};

struct screen_line {
  enum class look { plain, heading, warning, alarm, prompt } how = look::plain;
  std::string text;
  bool selected = false;
};

enum class sort_column { name, since, left, waiting, owner };
/// As --sort has them. @return empty for any other word
std::optional<sort_column> order_of(std::string_view word);
inline constexpr char const* order_words = "name, since, left, waiting or owner";

/// What is shown, and what of it. States: the table; one name's details; the help; and, in front of the
/// table, a question or the filter that is typed. A selection and a question stay with their term, wherever
/// it moves to: a question about a term that has ended is not carried out.
class top_table {
 public:
  top_table(std::string title, std::chrono::milliseconds every, sort_column);

  void take(reading);
  /// The last attempt to read failed. What was read before stays.
  void fail(std::string why);
  /// What became of a wish.
  void tell(std::string message) { message_ = std::move(message); }
  wish press(key const&);

  /// Exactly `height` lines, none wider than `width`.
  std::vector<screen_line> screen(std::size_t width, std::size_t height);
  /// All rows, for a file or a pipe.
  std::string plain(std::size_t width) const;
  /// From the beginning of a reading to that of the next: at most a tenth of the time is spent on readings.
  std::chrono::milliseconds pause() const;

 private:
  enum class mode { table, details, help, question, filter };
  struct used_permits {
    std::int64_t used = 0;
    std::int64_t limit = 0;
  };
  struct column;
  static std::vector<column> const& all_columns();

  void arrange();
  lock_info const* selected() const;
  void move(std::ptrdiff_t by);
  wish press_in_table(key const&);
  wish press_in_question(key const&);
  void press_in_filter(key const&);
  void ask();
  bool matches(lock_info const&) const;
  bool before(lock_info const&, lock_info const&) const;
  std::string summary() const;
  std::string status() const;
  std::vector<std::string> details(lock_info const&, std::size_t width) const;
  std::vector<std::size_t> widths(std::size_t width, std::size_t first, std::size_t end) const;
  std::string row(lock_info const*, std::vector<std::size_t> const& widths) const;
  std::vector<screen_line> table_lines(std::size_t width, std::size_t count);

  std::string title_;
  std::chrono::milliseconds every_;
  sort_column order_;
  bool reversed_ = false;
  std::string filter_;
  reading now_;
  std::map<std::string, used_permits, std::less<>> used_;
  std::optional<double> handovers_;  ///< per second
  std::vector<std::size_t> shown_;   ///< of now_.locks, filtered and sorted
  std::string selected_;             ///< its name, and of several permits which
  std::size_t at_ = 0;               ///< of shown_
  std::size_t top_ = 0;              ///< the first that is on the screen
  std::size_t page_ = 1;
  std::size_t scrolled_ = 0;  ///< of details
  mode mode_ = mode::table;
  std::optional<lock_info> asked_;  ///< about this
  std::string trouble_;
  std::string message_;
};

}  // namespace rowlock::tool

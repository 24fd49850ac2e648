#pragma once
// Limits the memory for one reply. wire_watch.hpp limits its bytes on the wire, but few bytes can mean much:
// a NULL of the binary protocol is a bit, and a message of five bytes is a result.

#include <cstddef>

namespace rowlock::backend {

class reply_size {
 public:
  /// @return false if no expected reply has so many results
  bool add_result() noexcept { return ++results_ <= most_results; }
  /// @return false if no expected reply has so many cells
  bool add_row(std::size_t columns) noexcept {
    cells_ += columns + 1;
    return cells_ <= most_cells;
  }

 private:
  /// A migration has some hundred statements.
  static constexpr std::size_t most_results = 10'000;
  /// A list of 40,000 locks has 720,000.
  static constexpr std::size_t most_cells = 1'500'000;

  std::size_t results_ = 0;
  std::size_t cells_ = 0;
};

inline constexpr char const* too_long_reply = "the server's reply was longer than any that is expected";

}  // namespace rowlock::backend

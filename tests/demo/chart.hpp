#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rowlock::demo {

/// Rows of bars above a time axis, part of a picture. Its functions return SVG.
class chart {
 public:
  static constexpr double width = 960, left = 92, right = 20;
  static constexpr double row_height = 46, bar_height = 18;

  struct options {
    double top = 0;                   ///< where its heading begins
    std::vector<std::string> rows{};  ///< their names
    std::int64_t from = 0;            ///< as event::at
    std::int64_t shown = 0;           ///< nanoseconds
    std::int64_t tick = 0;            ///< nanoseconds
  };

  explicit chart(options o) : options_(std::move(o)) {}

  std::string frame(std::string const& heading) const;
  /// Empty if all of it is outside.
  std::string bar(int row, std::int64_t from, std::int64_t to, char const* style) const;

  double x(std::int64_t t) const;
  double bar_top(int row) const { return row_top(row) + 4; }
  bool is_shown(std::int64_t t) const { return t >= options_.from && t <= end(); }
  std::int64_t end() const { return options_.from + options_.shown; }
  static double height(int rows) { return 34 + rows * row_height + 26; }

 private:
  double row_top(int row) const { return options_.top + 34 + row * row_height; }

  options options_;
};

struct legend_entry {
  char const* shape;
  char const* text;
  double x;
};

/// A whole picture. `charts`: what a chart returns, between the title and `legend_top`.
std::string picture(std::string const& description, std::string const& title, std::string const& charts,
                    double legend_top, std::vector<legend_entry> const& legend);

}  // namespace rowlock::demo

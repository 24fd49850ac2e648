#include "picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "printable.hpp"

namespace rowlock::torture {
namespace {

constexpr double left = 150;
constexpr double width = 850;
constexpr double top = 70;
constexpr double step = 26;

using one_thread = std::pair<std::uint32_t, std::uint32_t>;

std::string escaped(std::string const& text) {
  std::string out;
  for (char const c : printable(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

bool is_same(record const& a, record const& b) {
  return a.process == b.process && a.life == b.life && a.thread == b.thread && a.turn == b.turn;
}

class drawing {
 public:
  drawing(std::vector<record> const& history, violation const& v) : violation_(v) {
    for (auto const& i : intervals(history))
      if (i.got.name == v.records.front().name) all_.push_back(i);
    for (auto const& i : all_)
      if (shows_it(i)) include(i);
    // Some of what was before and after.
    auto const margin = std::max<std::int64_t>((to_ - from_) / 8, 2'000'000);
    from_ -= margin;
    to_ += margin;
    for (auto const& i : all_)
      if (i.end >= from_ && i.got.at <= to_) rows_.emplace(one_thread{i.got.process, i.got.thread}, 0U);
    std::size_t next = 0;
    for (auto& [who, row] : rows_) row = next++;
  }

  std::string text(std::vector<record> const& history) {
    auto const height = top + step * static_cast<double>(rows_.size());
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#fff\"/>\n",
        left + width + 20, height + 40);
    label(10, 20, fmt::format("{}: lock {}", violation_.rule, violation_.records.front().name), "bold");
    label(10, 38, violation_.text.substr(0, 150), "normal");
    for (auto const& [who, row] : rows_)
      label(10, top + step * static_cast<double>(row) + 16,
            fmt::format("process {} thread {}", who.first, who.second), "normal");
    faults(history, height);
    for (auto const& i : all_) draw(i);
    axis(height);
    return out_ + "</svg>\n";
  }

 private:
  bool shows_it(interval const& i) const {
    return std::any_of(violation_.records.begin(), violation_.records.end(),
                       [&](record const& r) { return is_same(r, i.got); });
  }
  void include(interval const& i) {
    from_ = std::min(from_, i.got.at);
    to_ = std::max(to_, i.end);
  }
  double x(std::int64_t at) const {
    auto const part = static_cast<double>(at - from_) / static_cast<double>(to_ - from_);
    return left + width * std::clamp(part, 0.0, 1.0);
  }
  void label(double at_x, double at_y, std::string const& text, char const* weight) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-weight=\"{}\">{}</text>\n", at_x, at_y, weight,
                        escaped(text));
  }
  void box(std::int64_t from, std::int64_t to, double y, double height, char const* colour,
           std::string const& title) {
    if (to < from_ || from > to_) return;
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "fill=\"{}\"><title>{}</title></rect>\n",
        x(from), y, std::max(x(to) - x(from), 1.0), height, colour, escaped(title));
  }

  void draw(interval const& i) {
    auto const row = rows_.find({i.got.process, i.got.thread});
    if (row == rows_.end()) return;
    box(i.got.at, i.end, top + step * static_cast<double>(row->second) + 4, step - 8,
        shows_it(i) ? "#c0392b" : "#5b8def",
        fmt::format("turn {}, token {}, {} units, {:.3f} ms", i.got.turn, i.got.token, i.got.units,
                    static_cast<double>(i.end - i.got.at) / 1e6));
  }

  void faults(std::vector<record> const& history, double height) {
    for (auto const& r : history) {
      if (r.what != happening::fault && r.what != happening::died) continue;
      auto end = r.what == happening::died ? r.at : to_;
      for (auto const& m : history)
        if (m.what == happening::mended && m.at >= r.at && m.process == r.process) {
          end = std::min(end, m.at);
          break;
        }
      auto const what = r.what == happening::died ? std::string("killed") : std::string(r.text);
      if (r.process == everybody) {
        box(r.at, end, top, height - top, "#e6e0c8", what);
        continue;
      }
      for (auto const& [who, row] : rows_)
        if (who.first == r.process)
          box(r.at, end, top + step * static_cast<double>(row), step, "#d5d5d5", what);
    }
  }

  void axis(double height) {
    constexpr int marks = 8;
    for (int i = 0; i <= marks; ++i) {
      auto const at = from_ + (to_ - from_) / marks * i;
      out_ += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#bbb\"/>\n",
                          x(at), top, height);
      label(x(at) - 18, height + 18, fmt::format("{:.1f} ms", static_cast<double>(at - from_) / 1e6),
            "normal");
    }
  }

  violation const& violation_;
  std::vector<interval> all_;
  std::int64_t from_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t to_ = std::numeric_limits<std::int64_t>::min();
  std::map<one_thread, std::size_t> rows_;
  std::string out_;
};

}  // namespace

std::string picture(std::vector<record> const& history, violation const& v) {
  if (v.records.empty()) return {};
  return drawing(history, v).text(history);
}

}  // namespace rowlock::torture

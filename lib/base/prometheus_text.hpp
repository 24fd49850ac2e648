#pragma once
// Prometheus' text exposition format, version 0.0.4. Header-only, because the command line uses it, too.

#include <fmt/format.h>

#include <concepts>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace rowlock::base {

class prometheus_text {
 public:
  using label = std::pair<std::string_view, std::string_view>;
  using labels = std::initializer_list<label>;

  /// Begins a metric. Its samples follow. `type`: counter, gauge or histogram.
  void metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(end(), "# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, type);
  }

  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void sample(Number value, labels of = {}) { sample_of("", of, value); }

  /// `suffix`: distinguishes a histogram's samples, "_bucket" and so on.
  template <class Number>
  void sample_of(std::string_view suffix, labels of, Number value) {
    text_ += name_;
    text_ += suffix;
    char before = '{';
    for (auto const& [name, content] : of) {
      fmt::format_to(end(), "{}{}=\"{}\"", before, name, escaped(content, true));
      before = ',';
    }
    if (of.size() > 0) text_ += '}';
    if constexpr (std::same_as<Number, bool>)
      fmt::format_to(end(), " {}\n", value ? 1 : 0);
    else
      fmt::format_to(end(), " {}\n", value);
  }

  std::string const& text() const& noexcept { return text_; }
  std::string text() && noexcept { return std::move(text_); }

 private:
  std::back_insert_iterator<std::string> end() { return std::back_inserter(text_); }

  /// Escapes a backslash, a line's end and, in a label, quotes.
  static std::string escaped(std::string_view text, bool quoted) {
    std::string out;
    for (char const c : text) {
      if (c == '\\' || (quoted && c == '"')) out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    return out;
  }

  std::string text_;
  std::string name_;
};

}  // namespace rowlock::base

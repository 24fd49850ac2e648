#include "command_words.hpp"

#include <algorithm>
#include <numeric>

namespace rowlock::tool {
namespace {

bool is_option(std::string const& word) { return word.size() > 1 && word.front() == '-'; }

/// Of the command or of one above it.
CLI::Option const* find_option(CLI::App const* at, std::string const& name) {
  for (; at != nullptr; at = at->get_parent())
    if (auto const* found = at->get_option_no_throw(name)) return found;
  return nullptr;
}

bool takes_value(CLI::Option const& option) { return option.get_items_expected_min() > 0; }

/// Whether the value of this option, if it takes one, is the word behind. Nothing if there is no such option.
std::optional<bool> value_is_next(CLI::App const& at, std::string const& word) {
  if (word.starts_with("--")) {
    auto const equals = word.find('=');
    auto const* option = find_option(&at, word.substr(0, equals));
    if (option == nullptr) return std::nullopt;
    return equals == word.npos && takes_value(*option);
  }
  // -w5, -w 5, -nE 5
  for (std::size_t i = 1; i < word.size(); ++i) {
    auto const* option = find_option(&at, {'-', word[i]});
    if (option == nullptr) return std::nullopt;
    if (takes_value(*option)) return i + 1 == word.size();
  }
  return false;
}

/// Levenshtein's: how many letters must be put in, left out or changed.
std::size_t distance(std::string const& a, std::string const& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      auto const change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

}  // namespace

bool runs_a_command(std::string_view name) { return name == "run" || name == "lead" || name == "once"; }

std::optional<std::size_t> bare_command(CLI::App const& app, std::vector<std::string> const& arguments) {
  auto const* at = &app;
  bool name_seen = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto const& word = arguments[i];
    if (name_seen) return is_option(word) ? std::nullopt : std::optional(i);
    if (is_option(word)) {
      if (word == "--") return std::nullopt;
      auto const next = value_is_next(*at, word);
      if (!next) return std::nullopt;
      if (*next) ++i;
    } else if (at != &app) {
      name_seen = true;
    } else if (runs_a_command(word)) {
      at = app.get_subcommand(word);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> name_behind_dashes(CLI::App const& app,
                                              std::vector<std::string> const& arguments) {
  CLI::App const* at = &app;
  std::size_t i = 0;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    auto const& word = arguments[i];
    if (!is_option(word)) {
      auto const below = app.get_subcommands([&](CLI::App const* one) { return one->get_name() == word; });
      if (at != &app || below.empty()) return std::nullopt;  // the name, or a word that nobody knows
      at = below.front();
    } else if (auto const next = value_is_next(*at, word); !next) {
      return std::nullopt;
    } else if (*next) {
      ++i;
    }
  }
  bool const runs = runs_a_command(at->get_name());
  bool const named = runs ? i + 2 < arguments.size() && arguments[i + 2] == "--" : i + 2 == arguments.size();
  auto const options = at->get_options();
  bool const takes_name =
      std::any_of(options.begin(), options.end(), [](auto const* one) { return one->get_positional(); });
  return takes_name && named ? std::optional(i + 1) : std::nullopt;
}

std::string nearest(std::string const& name, std::vector<std::string> const& names) {
  return *std::min_element(names.begin(), names.end(), [&](auto const& a, auto const& b) {
    return distance(name, a) < distance(name, b);
  });
}

}  // namespace rowlock::tool

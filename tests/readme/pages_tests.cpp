// The pages that must be complete. lib/doc/traps.md: each trap has a test that carries its id, and what a row
// says of its test is part of such a name; what the tests call a trap is on the page.
// lib/doc/interleavings.md: each statement is on it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

std::string text_of(fs::path const& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Whether a text ends as what begins a case: TEST_CASE(, CONTRACT_CASE(, TEST_CASE_TEMPLATE(. A SUBCASE is
/// none: nobody can choose it by its name.
bool begins_case(std::string_view text) {
  auto const blanks = [&] {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  };
  blanks();
  if (!text.ends_with('(')) return false;
  text.remove_suffix(1);
  blanks();
  return text.ends_with("_CASE") || text.ends_with("_CASE_TEMPLATE");
}

/// The names of a text's cases, each of one or several literals. Not what a comment says.
std::vector<std::string> cases_in(std::string const& text) {
  std::vector<std::string> found;
  bool joined = false;  // nothing but blanks since the last piece of a name
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '\'' && i + 2 < text.size() && text[i + 2] == '\'') {
      i += 2;
      joined = false;
    } else if (text[i] == '"') {
      bool const begins = !joined && begins_case(std::string_view(text).substr(0, i));
      std::string piece;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
        piece += text[i];
      }
      if (begins)
        found.push_back(std::move(piece));
      else if (joined)
        found.back() += piece;
      joined = joined || begins;
    } else if (std::isspace(static_cast<unsigned char>(text[i])) == 0) {
      joined = false;
    }
  }
  return found;
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (auto const& entry : fs::recursive_directory_iterator(source_path("tests"))) {
    auto const kind = entry.path().extension();
    if ((kind != ".cpp" && kind != ".hpp") || entry.path().parent_path().filename() == "readme") continue;
    for (auto& name : cases_in(text_of(entry.path()))) names.push_back(std::move(name));
  }
  return names;
}

struct trap {
  std::string id, test;
};

std::vector<trap> traps_of_the_page() {
  std::regex const row(R"re(\| ([TKROPQDBF]\d+) \| .* \| .* \| (.*) \|)re");
  std::vector<trap> traps;
  std::istringstream page(text_of(source_path("lib/doc/traps.md")));
  for (std::string line; std::getline(page, line);)
    if (std::smatch m; std::regex_match(line, m, row)) traps.push_back({m[1], m[2]});
  return traps;
}

/// "K1, K2: ..." at the beginning, also behind some words and a colon; or "... [B8][B9]", "(B8)".
std::set<std::string> ids_in(std::string const& name) {
  std::set<std::string> ids;
  static std::regex const bracket(R"re([\[(]([TKROPQDBCF]\d+)[\])])re"), one(R"re([TKROPQDBCF]\d+)re");
  static std::regex const first(
      R"re(^(?:[A-Za-z ]+: |trap )?((?:[A-Za-z]+: )?[TKROPQDBCF]\d+(?:,? (?:and )?[TKROPQDBCF]\d+)*)(?:: |, ))re");
  std::sregex_iterator const end;
  for (std::sregex_iterator at(name.begin(), name.end(), bracket); at != end; ++at) ids.insert((*at)[1]);
  if (std::smatch m; std::regex_search(name, m, first)) {
    std::string const list = m[1];
    for (std::sregex_iterator at(list.begin(), list.end(), one); at != end; ++at) ids.insert(at->str());
  }
  return ids;
}

TEST_CASE("lib/doc/traps.md: each trap has a test with its id, whose name is the one that the page says") {
  auto const names = names_of_cases();
  REQUIRE(names.size() > 1000);
  std::map<std::string, std::vector<std::string>> tests;
  for (auto const& name : names)
    for (auto const& id : ids_in(name)) tests[id].push_back(name);
  auto const traps = traps_of_the_page();
  std::map<char, int> numbers{{'F', 3}};
  std::set<std::string> on_the_page;
  for (auto const& t : traps) {
    CAPTURE(t.id);
    CHECK(on_the_page.insert(t.id).second);
    // None is left out, but F1 to F3, F18 and F20.
    auto& number = numbers[t.id[0]];
    if (t.id == "F19" || t.id == "F21") ++number;
    CHECK(std::stoi(t.id.substr(1)) == ++number);
    bool found = false;
    for (auto const& name : tests[t.id]) found = found || name.find(t.test) != name.npos;
    CHECK_MESSAGE(found, "no test with this id has a name with: " << t.test);
  }
  CHECK(traps.size() == 116);
  auto const page = text_of(source_path("lib/doc/traps.md"));
  for (auto const& one : tests)  // clang keeps structured bindings from doctest's lambda
    CHECK_MESSAGE((on_the_page.contains(one.first) || page.find("- **" + one.first + "** ") != page.npos),
                  one.first << ": " << one.second.front());
  for (int c = 1; c <= 61; ++c) {
    auto const id = "C" + std::to_string(c);
    bool const is_there = page.find("- **" + id + "** ") != page.npos;
    CHECK_MESSAGE(is_there == (c < 36 || c > 39), id);  // four numbers are free
    if (is_there && id != "C30")
      CHECK_MESSAGE(tests.contains(id), id << " has no test");  // C30: CI's tsan stage
  }
}

TEST_CASE("lib/doc/traps.md: only the name of a case counts as a test") {
  CHECK(cases_in("TEST_CASE(\"T1: a\" \" b\") { f(\"T2: c\"); }\nCONTRACT_CASE(\n  \"T3: d\", x)") ==
        std::vector<std::string>{"T1: a b", "T3: d"});
  CHECK(cases_in("// TEST_CASE(\"T1: a\")\nSUBCASE(\"T2: b\")").empty());
}

std::set<std::string> statements() {
  std::set<std::string> names;
  std::string const mark = "-- name: ";
  for (auto const& entry : fs::recursive_directory_iterator(source_path("lib/sql"))) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(mark)) names.insert(line.substr(mark.size()));
  }
  return names;
}

TEST_CASE("lib/doc/interleavings.md: each statement of lib/sql has its line, and each line its statement") {
  std::regex const first_cell(R"re(\| ((?:`[a-z_]+`(?:, )?)+) \|.*)re"), one("`([a-z_]+)`");
  std::set<std::string> described;
  std::ifstream page(source_path("lib/doc/interleavings.md"));
  for (std::string line; std::getline(page, line);) {
    std::smatch m;
    if (!std::regex_match(line, m, first_cell)) continue;
    std::string const cell = m[1];
    for (std::sregex_iterator at(cell.begin(), cell.end(), one), end; at != end; ++at)
      CHECK_MESSAGE(described.insert((*at)[1]).second, (*at)[1].str());
  }
  auto const there = statements();
  CHECK(there.size() > 100);
  for (auto const& name : there) CHECK_MESSAGE(described.contains(name), name);
  for (auto const& name : described) CHECK_MESSAGE(there.contains(name), name);
}

}  // namespace
}  // namespace rowlock::test

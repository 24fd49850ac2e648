// Where the links between README.md and the pages of lib/doc lead: to files and headings that are there.

#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

/// The lines of a text in Markdown, without those of code.
std::vector<std::string> prose_of(fs::path const& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  bool code = false;
  for (std::string line; std::getline(in, line);) {
    bool const fence = line.starts_with("```");
    code = fence != code;
    if (!code && !fence) lines.push_back(line);
  }
  return lines;
}

/// The names by which GitHub links to headings.
std::set<std::string> anchors_of(fs::path const& file) {
  std::set<std::string> anchors;
  for (auto const& line : prose_of(file)) {
    if (!line.starts_with("#")) continue;
    std::string anchor;
    for (char const c : line.substr(line.find_first_not_of('#') + 1)) {
      if (c == ' ')
        anchor += '-';
      else if (c == '-' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0)
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    anchors.insert(anchor);
  }
  return anchors;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (std::string const folder : {"", "lib/doc"})
    for (auto const& entry : fs::directory_iterator(source_path(folder)))
      if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

TEST_CASE("README.md and lib/doc: each link leads to a file and a heading that are there") {
  std::regex const link(R"(\]\(([^)#]*)(#([^)]*))?\))");
  std::regex const code("`[^`]*`");
  int headings = 0;
  for (auto const& page : pages()) {
    for (auto const& line : prose_of(page)) {
      auto const words = std::regex_replace(line, code, "");
      for (std::sregex_iterator it(words.begin(), words.end(), link), end; it != end; ++it) {
        if (it->str(1).starts_with("http")) continue;
        auto const target = it->str(1).empty() ? page : page.parent_path() / it->str(1);
        CAPTURE(page.string());
        CAPTURE(it->str());
        REQUIRE(fs::exists(target));
        if (!(*it)[2].matched) continue;
        ++headings;
        CHECK(anchors_of(target).contains(it->str(3)));
      }
    }
  }
  CHECK(headings > 10);
}

}  // namespace
}  // namespace rowlock::test

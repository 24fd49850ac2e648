#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

std::string content_of(std::filesystem::path const& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST_CASE("the guide leads to each C++ program of lib/examples, and each has under 100 lines") {
  std::filesystem::path const lib = source_path("lib");
  auto const guide = content_of(lib / "doc/guide.md");
  int programs = 0;
  for (auto const& entry : std::filesystem::directory_iterator(lib / "examples")) {
    if (entry.path().extension() != ".cpp") continue;
    auto const text = content_of(entry.path());
    CAPTURE(entry.path().filename().string());
    CHECK(std::ranges::count(text, '\n') < 100);
    CHECK(guide.find("(../examples/" + entry.path().filename().string() + ")") != guide.npos);
    ++programs;
  }
  CHECK(programs >= 9);
}

}  // namespace
}  // namespace rowlock::test

#include <doctest/doctest.h>
#include <fnmatch.h>

#include <array>
#include <clocale>
#include <random>
#include <string>
#include <string_view>

#include "base/glob.hpp"

using rowlock::base::glob;

namespace {

/// SQL's LIKE with ESCAPE '|', byte by byte.
bool like(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '%')
    return like(pattern.substr(1), name) || (!name.empty() && like(pattern, name.substr(1)));
  if (name.empty()) return false;
  if (pattern[0] == '|')
    pattern.remove_prefix(1);
  else if (pattern[0] == '_')
    return like(pattern.substr(1), name.substr(1));
  return pattern[0] == name[0] && like(pattern.substr(1), name.substr(1));
}

bool by_fnmatch(std::string const& pattern, std::string const& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string any_text(std::mt19937& random, std::size_t longest) {
  constexpr std::array<char const*, 20> parts{"a", "b",  "a", "b",  "*",        "?",        "[",
                                              "]", "!",  "^", "-",  "|",        "%",        "_",
                                              "A", "\\", " ", "\n", "\xc3\xa4", "[:alpha:]"};
  std::string text;
  for (auto n = random() % (longest + 1); n > 0; --n) text += parts.at(random() % parts.size());
  return text;
}

}  // namespace

TEST_CASE("C77: glob: matches as fnmatch() does, and its LIKE and prefix leave out nothing that matches") {
  std::mt19937 random(77);
  int found = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto const pattern = "a" + any_text(random, 6);
    auto const name = "a" + any_text(random, 5);
    CAPTURE(pattern);
    CAPTURE(name);
    glob const g(pattern);
    bool const matches = by_fnmatch(pattern, name);
    found += matches ? 1 : 0;
    REQUIRE(g.matches(name) == matches);
    if (!matches) continue;
    REQUIRE(like(g.like(), name));
    REQUIRE(name.starts_with(g.prefix()));
  }
  CHECK(found > 1000);
  CHECK(glob("").matches("anything"));
  CHECK(glob("").like() == "%");
  CHECK(glob("job-*").like() == "job-%");
  CHECK(glob("job-*").prefix() == "job-");
  CHECK(glob("100%_|*x").like() == "100|%|_||%x");
  CHECK(glob(std::string(10'000, 'x')).like().size() < 1000);
}

TEST_CASE("C77: glob: a byte is a byte, whatever the program's locale is") {
  std::string const name =
      "a\xc3\xa4"
      "b";
  REQUIRE(std::setlocale(LC_ALL, "C.UTF-8") != nullptr);
  bool const by_bytes = !glob("a?b").matches(name) && glob("a??b").matches(name);
  bool const others_by_characters = by_fnmatch("a?b", name);
  std::setlocale(LC_ALL, "C");
  CHECK(by_bytes);
  CHECK(others_by_characters);
}

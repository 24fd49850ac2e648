#include "base/text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/random_id.hpp"

using namespace rowlock;
using namespace std::string_literals;

namespace {

bool good(std::string const& name) {
  try {
    base::require_name(name);
    return true;
  } catch (error const& e) {
    CHECK(e.reason() == errc::invalid_argument);
    return false;
  }
}

}  // namespace

TEST_CASE("a name is 1 to 255 bytes") {
  CHECK_FALSE(good(""));
  CHECK(good("a"));
  CHECK(good(std::string(255, 'a')));
  CHECK_FALSE(good(std::string(256, 'a')));
  std::string emoji;
  for (int i = 0; i < 64; ++i) emoji += "\xf0\x9f\x94\x92";  // 64 characters, 256 bytes
  CHECK_FALSE(good(emoji));
  CHECK(good(emoji.substr(0, 252)));
}

TEST_CASE("a name is UTF-8 without U+0000") {
  CHECK(good("job 'of' \"the\" day; -- \\ \n\t\x01\x7f"));
  CHECK(good("\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92\xef\xbf\xbf\xf4\x8f\xbf\xbf"));
  CHECK_FALSE(good("a\0b"s));
  CHECK_FALSE(good("\0"s));
  CHECK_FALSE(good("\xff"));
  CHECK_FALSE(good("\xe9t\xe9"));         // Latin-1
  CHECK_FALSE(good("\xc0\x80"));          // an overlong U+0000
  CHECK_FALSE(good("\xc1\xbf"));          // overlong
  CHECK_FALSE(good("\xe0\x9f\xbf"));      // overlong
  CHECK_FALSE(good("\xf0\x8f\xbf\xbf"));  // overlong
  CHECK_FALSE(good("\xed\xa0\x80"));      // a surrogate
  CHECK_FALSE(good("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  CHECK_FALSE(good("\x80"));              // a lone continuation
  CHECK_FALSE(good("a\xe2\x82"));         // cut
  CHECK_FALSE(
      good("a\xe2\x82"
           "b"));
}

TEST_CASE("text as JSON is what a reader of JSON takes for the same text") {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  for (auto const& text :
       {""s, all, "\"\\\"\\"s, "a/b"s, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92\xf4\x8f\xbf\xbf"s}) {
    std::string out = "x";
    base::append_json(out, text);
    REQUIRE(out.starts_with("x\""));
    CHECK(nlohmann::json::parse(out.substr(1)).get<std::string>() == text);
    CHECK(std::none_of(out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }));
  }
  CHECK(base::hexadecimal("\x00\x7f\xff a"s) == "007fff2061");
}

TEST_CASE("ids that are drawn together are each its own") {
  std::set<std::string> all;
  for (std::size_t const n : {0U, 1U, 15U, 16U, 17U, 64U, 100U})
    for (auto const& id : base::random_ids(n)) {
      CHECK(id.size() == 32);
      CHECK(id.find_first_not_of("0123456789abcdef") == id.npos);
      CHECK(all.insert(id).second);
    }
  CHECK(all.size() == 213);
}

TEST_CASE("what is wrong with a text is said, and what it is") {
  auto const said = [](std::string const& text) {
    try {
      base::require_text("the note", text, 4);
      return ""s;
    } catch (error const& e) {
      return std::string(e.what());
    }
  };
  CHECK(said("") == "");
  CHECK(said("four") == "");
  CHECK(said("five5").find("the note is 5 bytes long") != std::string::npos);
  CHECK(said("\xff").find("the note is not UTF-8") != std::string::npos);
  CHECK(said("\0"s).find("the note contains U+0000") != std::string::npos);
}

TEST_CASE("a list of texts as JSON, whatever a server calls a name") {
  std::vector<std::string> const texts{"a \"quoted\" \\ one", "line\n", "\xc3\xa4"};
  CHECK(nlohmann::json::parse(base::json_list(texts)).get<std::vector<std::string>>() == texts);
  CHECK(base::json_list({}) == "[]");
  std::vector<std::string> const none{"\xff\xfc"};
  CHECK_NOTHROW((void)base::json_list(none));
}

// Names, terms and notes are sent as JSON: whatever is accepted comes out of it as it went in.
#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>
#include <vector>

#include "base/text.hpp"
#include "fuzz/bytes.hpp"
#include "strategy/term_rows.hpp"

using namespace rowlock;

namespace {

bool accepted(std::string_view note) try {
  base::require_text("the note", note, base::longest_note);
  return true;
} catch (error const& e) {
  fuzz::must(e.reason() == errc::invalid_argument);
  return false;
}

void comes_back(std::string const& note) {
  std::string quoted;
  base::append_json(quoted, note);
  fuzz::must(nlohmann::json::parse(quoted).get<std::string>() == note);
}

// As statements on several terms have them.
void all_come_back(std::vector<strategies::name_and_term> const& wanted) {
  std::size_t room = 2;
  for (auto const& one : wanted) room += strategies::room_for(one);
  auto const text = strategies::to_json(wanted);
  fuzz::must(text.size() <= room);
  auto const list = nlohmann::json::parse(text);
  fuzz::must(list.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    fuzz::must(list[i].at("name") == wanted[i].name && list[i].at("term") == wanted[i].term.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const note(fuzz::as_text(data, size));
  bool const good = note.size() <= base::longest_note && note.find('\0') == note.npos && fuzz::is_utf8(note);
  fuzz::must(accepted(note) == good);
  if (!good) return 0;
  comes_back(note);
  std::vector<strategies::name_and_term> wanted;
  // Cut into several names, where a letter is.
  for (std::size_t from = 0; from < note.size() && wanted.size() < 8;) {
    auto const end = std::min(note.find('a', from), note.size());
    wanted.push_back({note.substr(from, end - from), {"0123456789abcdef0123456789abcdef"}});
    from = end + 1;
  }
  all_come_back(wanted);
  return 0;
}

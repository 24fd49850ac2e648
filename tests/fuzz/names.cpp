// A name is 1 to 255 bytes of UTF-8 without U+0000, and nothing else; any text can be shown.
#include <rowlock/error.hpp>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "fuzz/bytes.hpp"

using namespace rowlock;

namespace {

bool accepted(std::string_view name) try {
  base::require_name(name);
  return true;
} catch (error const& e) {
  fuzz::must(e.reason() == errc::invalid_argument);
  return false;
}

// Text without any control character is shown as it is.
void can_be_shown(std::string_view text) {
  auto const shown = base::printable(text);
  fuzz::must(fuzz::is_utf8(shown));
  fuzz::must(base::printable(shown) == shown);
  for (char const c : shown) fuzz::must(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const name = fuzz::as_text(data, size);
  bool const good = !name.empty() && name.size() <= base::longest_name && name.find('\0') == name.npos &&
                    fuzz::is_utf8(name);
  fuzz::must(accepted(name) == good);
  can_be_shown(name);
  return 0;
}

#include "base/text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rowlock::base {
namespace {

// The JSON library's serializer refuses what is not UTF-8: overlong forms, surrogates, cut sequences.
bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (nlohmann::json::type_error const&) {
    return false;
  }
}

}  // namespace

void require_text(std::string_view what, std::string_view text, std::size_t longest) {
  if (text.size() > longest)
    throw error(errc::invalid_argument,
                fmt::format("{} is {} bytes long; at most {} are allowed", what, text.size(), longest));
  if (text.find('\0') != text.npos)
    throw error(errc::invalid_argument, fmt::format("{} contains U+0000", what));
  if (!is_utf8(text)) throw error(errc::invalid_argument, fmt::format("{} is not UTF-8", what));
}

void require_name(std::string_view name) {
  if (name.empty())
    throw error(errc::invalid_argument, "the lock's name is empty; it takes 1 to 255 bytes of UTF-8");
  require_text("the lock's name", name, longest_name);
}

std::string hexadecimal(std::string_view bytes) {
  std::string out;
  for (char const c : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string plain_message(error const& e) {
  std::string text = e.what();
  auto const tail = ": " + e.code().message();
  if (text.size() > tail.size() && text.ends_with(tail)) text.resize(text.size() - tail.size());
  return text;
}

}  // namespace rowlock::base

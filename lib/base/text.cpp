#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rowlock::base {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

void append_hexadecimal(std::string& out, char c) {
  auto const byte = static_cast<unsigned char>(c);
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The JSON library's serializer refuses text that is not UTF-8.
bool is_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
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
  out.reserve(2 * bytes.size());
  for (char const c : bytes) append_hexadecimal(out, c);
  return out;
}

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (char const c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      out += "\\u00";
      append_hexadecimal(out, c);
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

std::string json_list(std::span<std::string const> texts) {
  std::string list = "[";
  for (auto const& text : texts) {
    if (list.size() > 1) list += ',';
    append_json(list, text);
  }
  return list + ']';
}

std::string plain_message(error const& e) {
  std::string text = e.what();
  auto const tail = ": " + e.code().message();
  if (text.size() > tail.size() && text.ends_with(tail)) text.resize(text.size() - tail.size());
  return text;
}

}  // namespace rowlock::base

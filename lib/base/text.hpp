#pragma once

#include <cstddef>
#include <rowlock/error.hpp>
#include <rowlock/export.hpp>
#include <span>
#include <string>
#include <string_view>

namespace rowlock::base {

inline constexpr std::size_t longest_name = 255;   ///< bytes
inline constexpr std::size_t longest_note = 1024;  ///< bytes

/// Throws error(errc::invalid_argument), naming `what`, unless `text` is UTF-8 without U+0000 and at most
/// `longest` bytes long.
void require_text(std::string_view what, std::string_view text, std::size_t longest);

/// The same for a lock's name, which must not be empty.
void require_name(std::string_view name);

ROWLOCK_EXPORT std::string hexadecimal(std::string_view bytes);

/// Appends UTF-8 text as a JSON string, in quotes.
void append_json(std::string& out, std::string_view text);

/// A list of such strings. Of a text that is not UTF-8 (a server's name) nothing is thrown: a database
/// refuses it.
std::string json_list(std::span<std::string const> texts);

/// what() without its end, the general text of its errc.
ROWLOCK_EXPORT std::string plain_message(error const&);

}  // namespace rowlock::base

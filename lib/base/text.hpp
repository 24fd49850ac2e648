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

/// The same for a lock's name, which must not be empty either.
void require_name(std::string_view name);

/// Two digits a byte.
ROWLOCK_EXPORT std::string hexadecimal(std::string_view bytes);

/// Text that is UTF-8, as JSON has it: in quotes.
void append_json(std::string& out, std::string_view text);

/// A list of such texts. What a server calls a name may be none: nothing is thrown, and a database refuses
/// it.
std::string json_list(std::span<std::string const> texts);

/// what() without the text of its errc at the end, which repeats it in general words.
ROWLOCK_EXPORT std::string plain_message(error const&);

}  // namespace rowlock::base

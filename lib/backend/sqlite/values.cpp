#include "backend/sqlite/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>

namespace rowlock::backend::sqlite {
namespace {

int limited(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT32_MAX)); }

value column(sqlite3_stmt* s, int index) {
  switch (sqlite3_column_type(s, index)) {
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_INTEGER:
      return std::int64_t{sqlite3_column_int64(s, index)};
    default: {
      auto const* text = reinterpret_cast<char const*>(sqlite3_column_text(s, index));
      return text == nullptr ? std::string{}
                             : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(s, index)));
    }
  }
}

}  // namespace

row current_row(sqlite3_stmt* s) {
  row out;
  int const columns = sqlite3_column_count(s);
  out.reserve(static_cast<std::size_t>(columns));
  for (int i = 0; i < columns; ++i) out.push_back(column(s, i));
  return out;
}

bool bind(sqlite3_stmt* native, std::span<value const> parameters, std::string const& what) {
  int index = 0;
  for (auto const& v : parameters) {
    ++index;
    int code = SQLITE_OK;
    if (is_null(v)) {
      code = sqlite3_bind_null(native, index);
    } else if (auto const* number = std::get_if<std::int64_t>(&v)) {
      code = sqlite3_bind_int64(native, index, *number);
    } else {
      auto const& text = std::get<std::string>(v);
      if (text.find('\0') != std::string::npos)  // the other back ends can't store it
        throw error(errc::invalid_argument, fmt::format("{}: text must not contain U+0000", what), what, "",
                    0);
      code = sqlite3_bind_text(native, index, text.c_str(), limited(text.size()), SQLITE_STATIC);
    }
    if (code != SQLITE_OK) return false;
  }
  return true;
}

}  // namespace rowlock::backend::sqlite

#pragma once
// The back end for each database URL: one entry each in schemes.cpp.

#include <rowlock/connection_source.hpp>

#include <span>
#include <string>
#include <string_view>

namespace rowlock::backend {

struct scheme {
  char const* back_end = "";
  std::span<std::string_view const> begins{};  ///< URL prefixes, the usual one first
  char const* example = "";                    ///< a URL that can be opened, for messages
  /// Also takes key = value pairs without a scheme.
  bool keywords = false;
  bool is_file = false;                                         ///< the rest is a path on this machine
  bool takes_password_file = false;                             ///< in the query, as "password-file"
  char const* passwords = "";                                   ///< places for a password other than the URL
  connection_source (*open)(std::string const& url) = nullptr;  ///< null: not built in
};

std::span<scheme const> schemes() noexcept;

/// Null if no back end matches the URL.
scheme const* scheme_of(std::string_view url) noexcept;

/// Whether the URL reveals a password.
bool has_password(scheme const&, std::string_view url);

}  // namespace rowlock::backend

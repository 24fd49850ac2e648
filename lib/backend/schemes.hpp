#pragma once
// Which back end a database URL is for: one line for each in schemes.cpp.

#include <rowlock/connection_source.hpp>

#include <span>
#include <string>
#include <string_view>

namespace rowlock::backend {

struct scheme {
  char const* back_end = "";
  std::span<std::string_view const> begins{};  ///< what such a URL begins with; the first one is the usual
  char const* example = "";                    ///< for messages; can be opened
  /// Also what has no scheme, but key = value pairs.
  bool keywords = false;
  bool is_file = false;              ///< the rest is a path of this machine's
  bool takes_password_file = false;  ///< as "password-file" in the query
  char const* passwords = "";        ///< where a password may stand, other than in the URL; for people
  connection_source (*open)(std::string const& url) = nullptr;  ///< null: not built in
};

std::span<scheme const> schemes() noexcept;

/// Null if the URL is for none of them.
scheme const* scheme_of(std::string_view url) noexcept;

/// Whether somebody who reads it learns a password.
bool has_password(scheme const&, std::string_view url);

}  // namespace rowlock::backend

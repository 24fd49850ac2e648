#pragma once

#include <optional>
#include <rowlock/export.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::backend::mysql {

struct endpoint {
  std::string host;  ///< an IPv6 address without brackets
  int port = 3306;
};

enum class tls {
  off,
  required,  ///< encrypted, to any server
  verified,  ///< and the server has proved its name
};

struct settings {
  std::vector<endpoint> endpoints;  ///< empty if `socket` is set
  std::string socket;
  std::string user;
  std::optional<std::string> url_password;
  std::string password_file;
  std::string database;
  tls encryption = tls::off;
  std::string ssl_ca;
  std::string ssl_cert;
  std::string ssl_key;

  /// From the URL, the password file or MYSQL_PWD, as they are now; else nothing (option_file.hpp is next).
  /// @throws error(errc::invalid_argument) if the password file can't be read
  std::optional<std::string> password() const;
  /// For messages, without the password.
  std::string describe() const;
};

/// The name of who runs the program: the default user.
ROWLOCK_EXPORT std::string own_user();

/// @throws error(errc::invalid_argument), without the URL in its message
settings read_url(std::string const& url);

}  // namespace rowlock::backend::mysql

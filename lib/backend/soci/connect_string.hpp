#pragma once

#include <string>
#include <string_view>

#include "backend/mysql/url.hpp"

namespace soci {
class session;
}

namespace rowlock::backend::soci {

/// Of the session's last open().
std::string connect_string_of(::soci::session const&);

/// A connect string for SOCI's back end postgresql, as libpq gets it: without `singlerow`.
std::string conninfo_in(std::string connect_string);

/// A connect string for SOCI's back end mysql. Limits of time, `charset`, `reconnect` and `local_infile` do
/// not count; with `sslca`, `sslcert` or `sslkey` the connection is encrypted.
/// @throws error(errc::invalid_argument)
mysql::settings mysql_settings_in(std::string_view connect_string);

}  // namespace rowlock::backend::soci

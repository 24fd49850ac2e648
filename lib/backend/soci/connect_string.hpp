#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace soci {
class session;
}

namespace rowlock::backend::soci {

/// Of the session's last open().
std::string connect_string_of(::soci::session const&);

/// The database of a connect string for SOCI's back end mysql: `db=`, `dbname=` or `service=`.
std::optional<std::string> mysql_database_in(std::string_view connect_string);

}  // namespace rowlock::backend::soci

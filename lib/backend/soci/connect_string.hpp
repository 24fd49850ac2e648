#pragma once
// The parameters by which the program opened a SOCI session.

#include <optional>
#include <string>
#include <string_view>

namespace soci {
class session;
}

namespace rowlock::backend::soci {

/// The connect string of the session's last open().
std::string connect_string_of(::soci::session const&);

/// The database in a connect string of SOCI's back end mysql: `db=`, `dbname=` or `service=`. Empty if there
/// is none.
std::optional<std::string> mysql_database_in(std::string_view connect_string);

}  // namespace rowlock::backend::soci

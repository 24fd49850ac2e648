#pragma once
// What the program told SOCI when it opened a session.

#include <optional>
#include <string>
#include <string_view>

namespace soci {
class session;
}

namespace rowlock::backend::soci {

/// The string that the session was opened with last.
std::string connect_string_of(::soci::session const&);

/// The database that such a string names, for SOCI's back end mysql: `db=`, `dbname=` or `service=`. Empty if
/// it names none.
std::optional<std::string> mysql_database_in(std::string_view connect_string);

}  // namespace rowlock::backend::soci

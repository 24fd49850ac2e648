#pragma once

#include <map>
#include <rowlock/connection_source.hpp>
#include <string>
#include <string_view>

namespace rowlock::test {

/// The text of a statement (lib/sql), before table names are put in. Fails the case if there is none.
std::string sql_of(connection_source const&, std::string_view statement);

/// The same database, to managers whose statements have other texts: for broken forms. By name; those that
/// are not named stay as they are.
connection_source with_changed_sql(connection_source, std::map<std::string, std::string> changed);

}  // namespace rowlock::test

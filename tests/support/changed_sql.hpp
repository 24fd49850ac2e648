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

/// What a tool that breaks statements on purpose (tools/dev/mutate) wants changed in every case: the
/// statements in the file that ROWLOCK_TEST_CHANGED_SQL names, as blocks of lib/sql. Without it, or on
/// another database than ROWLOCK_TEST_CHANGED_DIALECT: the source as it is.
connection_source as_the_environment_has_it(connection_source);

}  // namespace rowlock::test

#pragma once
// Connector/C++'s objects.

#include <cppconn/connection.h>
#include <cppconn/exception.h>
#include <cppconn/prepared_statement.h>
#include <cppconn/resultset.h>
#include <cppconn/resultset_metadata.h>
#include <cppconn/statement.h>
#include <sys/types.h>

#include <memory>

namespace rowlock::backend::mysql {

using native_connection = std::unique_ptr<sql::Connection>;
using native_statement = std::unique_ptr<sql::Statement>;
using native_prepared = std::unique_ptr<sql::PreparedStatement>;
using native_rows = std::unique_ptr<sql::ResultSet>;

/// One for the process. Registers the calling thread until its end. Every thread must call this before it
/// uses a connection.
sql::Driver& driver();

/// @throws sql::SQLException
native_connection open(sql::ConnectOptionsMap&);

}  // namespace rowlock::backend::mysql

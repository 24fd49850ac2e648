#pragma once
// Parameters and columns as the connector wants and gives them.

#include <cppconn/prepared_statement.h>
#include <cppconn/resultset.h>

#include <span>
#include <string>

#include "backend/backend.hpp"
#include "backend/mysql/parameters.hpp"

namespace rowlock::backend::mysql {

/// @throws error(errc::invalid_argument) if there are too few values, or text has U+0000 in it; `name` is for
/// messages
void bind(sql::PreparedStatement&, marked_text const&, std::span<value const>, std::string const& name);

/// Integers of every size, and so booleans, become integers; everything else text.
std::vector<row> decode(sql::ResultSet&);

}  // namespace rowlock::backend::mysql

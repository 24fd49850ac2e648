#pragma once

#include <cppconn/prepared_statement.h>
#include <cppconn/resultset.h>

#include <cstddef>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/reply_size.hpp"

namespace rowlock::backend::mysql {

/// `order`: which value each ? stands for.
void bind(sql::PreparedStatement&, std::span<std::size_t const> order, std::span<value const>);

/// Integers of every size, and booleans, become integers, all else text. `so_far`: of the whole reply.
/// @throws refusal if the reply is too long
row_list decode(sql::ResultSet&, reply_size& so_far);

}  // namespace rowlock::backend::mysql

#pragma once

#include <mysql.h>

#include <memory>

#include "backend/mysql/channel.hpp"

namespace rowlock::backend::soci {

/// Ends the connection at the end, but does not own the object. Precondition: opened with
/// CLIENT_MULTI_STATEMENTS and CLIENT_FOUND_ROWS.
std::unique_ptr<mysql::channel> channel_over(MYSQL&);

/// The connection stays the program's.
std::unique_ptr<mysql::borrowed_channel> borrowed_channel_over(MYSQL&);

/// Ends the connection. The object with its parameters stays.
void hang_up(MYSQL&) noexcept;

mysql::refusal refusal_of(MYSQL&);

}  // namespace rowlock::backend::soci

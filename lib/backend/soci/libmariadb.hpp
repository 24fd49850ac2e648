#pragma once
// The C client library's connection as a session's channel.

#include <mysql.h>

#include <memory>

#include "backend/mysql/channel.hpp"

namespace rowlock::backend::soci {

/// Does not own the connection, but ends it at the end. It has been opened with CLIENT_MULTI_STATEMENTS and
/// CLIENT_FOUND_ROWS.
std::unique_ptr<mysql::channel> channel_over(MYSQL&);

/// Stays the program's.
std::unique_ptr<mysql::borrowed_channel> borrowed_channel_over(MYSQL&);

/// Ends a connection of which only the memory, with its parameters, remains.
void hang_up(MYSQL&) noexcept;

/// What the library said last.
mysql::refusal refusal_of(MYSQL&);

}  // namespace rowlock::backend::soci

#pragma once
// MySQL Connector/C++ as a session's channel.

#include <mysql.h>

#include <memory>

#include "backend/mysql/channel.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/native.hpp"

namespace rowlock::backend::mysql {

/// `below`: the client library's own connection, for insert ids; null if unknown.
std::unique_ptr<channel> channel_over(native_connection, MYSQL* below);

std::unique_ptr<borrowed_channel> borrowed_channel_over(sql::Connection&);

refusal as_refusal(sql::SQLException const&);

}  // namespace rowlock::backend::mysql

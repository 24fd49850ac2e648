#pragma once
// MySQL Connector/C++ as a session's channel.

#include <memory>

#include "backend/mysql/channel.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/native.hpp"

namespace rowlock::backend::mysql {

std::unique_ptr<channel> channel_over(native_connection);

std::unique_ptr<borrowed_channel> borrowed_channel_over(sql::Connection&);

refusal as_refusal(sql::SQLException const&);

}  // namespace rowlock::backend::mysql

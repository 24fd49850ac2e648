#pragma once
// MySQL Connector/C++ as a session's channel.

#include <memory>

#include "backend/mysql/channel.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/native.hpp"

namespace rowlock::backend::mysql {

std::unique_ptr<channel> channel_over(native_connection);

refusal as_refusal(sql::SQLException const&);

}  // namespace rowlock::backend::mysql

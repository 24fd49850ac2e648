#pragma once

#include <mysql.h>

#include <memory>

#include "backend/mysql/channel.hpp"

namespace rowlock::backend::soci {

/// The connection stays the program's.
std::unique_ptr<mysql::borrowed_channel> borrowed_channel_over(MYSQL&);

}  // namespace rowlock::backend::soci

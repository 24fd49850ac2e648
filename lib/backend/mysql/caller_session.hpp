#pragma once
// The program's own connection to a server of MySQL or MariaDB.

#include <memory>

#include "backend/caller_connection.hpp"
#include "backend/mysql/channel.hpp"

namespace rowlock::backend::mysql {

std::unique_ptr<caller_connection> borrow(std::unique_ptr<borrowed_channel>, bool keep_prepared = false);

}  // namespace rowlock::backend::mysql

#pragma once

#include "backend/backend.hpp"

namespace rowlock::backend::mysql {

dialect const& mysql_dialect();

}  // namespace rowlock::backend::mysql

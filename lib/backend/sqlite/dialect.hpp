#pragma once

#include "backend/backend.hpp"

namespace rowlock::backend::sqlite {

dialect const& sqlite_dialect();

}  // namespace rowlock::backend::sqlite

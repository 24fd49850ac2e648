#pragma once

#include "backend/backend.hpp"

namespace rowlock::backend::postgresql {

dialect const& postgresql_dialect();

}  // namespace rowlock::backend::postgresql

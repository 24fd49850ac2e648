#pragma once

#include <memory>
#include <rowlock/export.hpp>

#include "backend/backend.hpp"
#include "backend/mysql/url.hpp"

namespace rowlock::backend::mysql {

/// Connections by these settings, as by the URL that says the same.
ROWLOCK_EXPORT std::shared_ptr<source> source_of(settings);

}  // namespace rowlock::backend::mysql

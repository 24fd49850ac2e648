#pragma once

#include <memory>
#include <rowlock/types.hpp>

#include "backend/mysql/session.hpp"
#include "backend/mysql/url.hpp"

namespace rowlock::backend::mysql {

/// Connects to the first host that answers and, if there are several, takes writes. If none does: to one that
/// only reads. Each host gets a share of the time, and each of its addresses a share of that. @throws error
std::unique_ptr<session> connect(settings const&, std::string const& where, boot_time_point deadline);

}  // namespace rowlock::backend::mysql

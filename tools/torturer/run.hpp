#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "checker.hpp"
#include "options.hpp"

namespace rowlock::torture {

/// As the exit status.
enum class outcome { kept = 0, broken = 1, unknown = 2 };
outcome status_of(verdict const&);

/// Makes the tables, tortures, judges. What the clients write down is in `folder`, which exists.
/// @param tell hears of each fault
/// @throws std::exception if it could not be found out
verdict torture(options const&, std::filesystem::path const& folder,
                std::function<void(std::string const&)> const& tell);

/// Makes the tables, tortures, judges, prints the verdict. SIGINT, SIGTERM and SIGHUP end it in order.
/// @return 0 no promise was broken, 1 one was, 2 too little was seen, or the database was away by itself
/// @throws std::exception if it could not be found out
int run(options const&);

}  // namespace rowlock::torture

#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::tool {

/// Whether a command of rowlock's runs another one, which stands behind "--": run, lead, once.
bool runs_a_command(std::string_view name);

/// Where the command of `rowlock run NAME COMMAND...` (or another such) begins among the program's arguments,
/// without "--": right behind NAME, unless that is an option or "--". Nothing if it does not, or if anything
/// before is not understood.
std::optional<std::size_t> bare_command(CLI::App const&, std::vector<std::string> const& arguments);

/// Where the lock's NAME stands if that is behind "--", so that it may begin with "-": `take OPTIONS... --
/// NAME`, and of renew, release and list, without a word more; `run OPTIONS... -- NAME -- COMMAND...`, and of
/// others that run one.
std::optional<std::size_t> name_behind_dashes(CLI::App const&, std::vector<std::string> const& arguments);

/// Which of `names` is written most alike. There must be one.
std::string nearest(std::string const& name, std::vector<std::string> const& names);

}  // namespace rowlock::tool

#pragma once
// One client: a process with threads that take and give back locks, and write down what they are told.

#include <cstdint>
#include <filesystem>

#include "ledger.hpp"
#include "options.hpp"

namespace rowlock::torture {

/// Works until `line`, a pipe, is closed by the other side. Never returns to the caller's code: the process
/// ends. Call it in a forked child that has one thread.
[[noreturn]] void be_client(options const&, ledger&, std::filesystem::path const& folder, std::uint32_t seat,
                            std::uint32_t life, int line) noexcept;

}  // namespace rowlock::torture

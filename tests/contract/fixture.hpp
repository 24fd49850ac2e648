#pragma once
// What a contract case needs: a migrated database of its own, a second owner that goes straight to it, a
// probe at which statements are counted, delayed and cut off, and the pairs of strategy and back end that it
// is to run for.

#include <rowlock/rowlock.hpp>

#include "contract/databases.hpp"
#include "contract/pairs.hpp"
#include "contract/statement_probe.hpp"
#include "contract/stranger.hpp"
#include "support/eventually.hpp"

namespace rowlock::test {

/// Takes and gives back; the token.
inline std::int64_t take_once(lock_manager& m, std::string const& name = "x") {
  auto const lock = m.make_mutex(name).acquire();
  return lock->token().value;
}

}  // namespace rowlock::test

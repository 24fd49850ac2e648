#pragma once

#include <utility>

namespace rowlock::base {

/// What a static reference refers to. At the end of the process locks are given back when statics may have
/// been destroyed already: none of ours may be. (CI has clang look for them: -Wexit-time-destructors.)
template <class T, class... Arguments>
T& never_destroyed(Arguments&&... arguments) {
  return *new T(std::forward<Arguments>(arguments)...);
}

}  // namespace rowlock::base

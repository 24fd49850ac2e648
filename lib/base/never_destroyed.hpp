#pragma once

#include <utility>

namespace rowlock::base {

/// For static references: locks are released at the end of the process, after other statics might have been
/// destroyed. (CI checks it: clang's -Wexit-time-destructors.)
template <class T, class... Arguments>
T& never_destroyed(Arguments&&... arguments) {
  return *new T(std::forward<Arguments>(arguments)...);
}

}  // namespace rowlock::base

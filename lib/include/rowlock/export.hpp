#pragma once

#include <rowlock/version.hpp>

/// What a shared library of rowlock's shows of itself; all else is hidden.
#define ROWLOCK_EXPORT [[gnu::visibility("default")]]

#pragma once

#include <rowlock/version.hpp>

/// Marks names that a shared library of rowlock shows. All else is hidden.
#define ROWLOCK_EXPORT [[gnu::visibility("default")]]

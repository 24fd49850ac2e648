#pragma once
// The only place where the versions are written: CMake reads them from here.

#define ROWLOCK_VERSION_MAJOR 0
#define ROWLOCK_VERSION_MINOR 1
#define ROWLOCK_VERSION_PATCH 0
/// The version as text.
#define ROWLOCK_VERSION "0.1.0"

/// The number of the binary interface, raised whenever programs must be compiled anew. Part of every linked
/// name, and of the shared libraries' names: a program that was compiled for another number does not link.
#define ROWLOCK_ABI_NAMESPACE v0

#ifndef __linux__
#error "rowlock needs Linux: CLOCK_BOOTTIME, eventfd, /proc, and the process's death signals"
#endif

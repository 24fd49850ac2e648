#pragma once
// What this machine, or a limit that was set on it, does not give us: neither a bug nor a fault of the
// database.

#include <optional>
#include <stdexcept>
#include <string>

namespace rowlock::tool {

/// The message names the limit, and the way out.
class system_refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// For an errno by which the system says that there are no more files, processes or memory: which
/// limit that is. Nothing for any other.
std::optional<std::string> limit_behind(int error);

/// @throws system_refusal unless the stack may have what drivers and TLS need; each thread's is as large as
/// this one may become
void require_room_on_stack();

/// @throws system_refusal unless the program can open as many more files as it may need at a time. So it is
/// said once, at the beginning, and not by the first thing that fails
void require_room_for_files();

/// @throws system_refusal unless /proc is there and shows the processes of this pid namespace under the ids
/// that they have in it
void require_own_proc();

}  // namespace rowlock::tool

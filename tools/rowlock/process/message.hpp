#pragma once
// What rowlock and its guardian tell each other, one message per packet of a SOCK_SEQPACKET socket pair. Both
// ends are the same program, forked: plain structures do.

#include <array>
#include <cstdint>

namespace rowlock::tool {

enum class order_kind : std::int32_t {
  start,   ///< the lock is held: run the command, with `trust_ends`
  renew,   ///< trust lasts until `trust_ends`
  end,     ///< the lock is lost: end the command, by `trust_ends` at the latest
  signal,  ///< pass `signal` on to the command
};

struct order {
  order_kind kind{};
  std::int32_t signal = 0;
  std::int64_t trust_ends = 0;  ///< nanoseconds of CLOCK_BOOTTIME
  std::int64_t token = 0;
  std::array<char, 256> name{};  ///< a name has 255 bytes at most
  std::array<char, 64> term{};
  std::array<char, 32> database{};
};

/// Why the command has ended.
enum class ending : std::int32_t {
  by_itself,     ///< it ended, or could not be run at all (exec_error)
  trust_ends,    ///< its time was up: no renewal came
  lost,          ///< rowlock said that the lock is lost
  rowlock_gone,  ///< rowlock itself was killed
};

struct report {
  ending why = ending::by_itself;
  std::int32_t not_begun = 0;    ///< 1: by then the command had not begun, and it did not begin any more
  std::int32_t exec_error = 0;   ///< errno of exec, 0 if it succeeded
  std::int32_t wait_status = 0;  ///< of the command, as waitpid() gives it
  std::int32_t ended = 0;        ///< how many processes were told to end, beside the command
  std::int32_t left = 0;         ///< how many could not be ended: not ours to signal, or stuck in the kernel
};

}  // namespace rowlock::tool

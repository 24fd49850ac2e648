#include <rowlock/types.hpp>

#include <ctime>

#include "base/boot_lead.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

boot_time_point boot_clock::now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return time_point{std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec} +
                    base::boot_lead()};
}

char const* to_string(takeover t) noexcept { return t == takeover::observed ? "observed" : "clock"; }

char const* to_string(acquire_status s) noexcept {
  switch (s) {
    case acquire_status::acquired:
      return "acquired";
    case acquire_status::busy:
      return "busy";
    case acquire_status::contended:
      return "contended";
    case acquire_status::quarantined:
      return "quarantined";
    case acquire_status::timed_out:
      return "timed out";
    case acquire_status::cancelled:
      return "cancelled";
    case acquire_status::done:
      return "done";
  }
  return "?";
}

char const* to_string(loss_reason r) noexcept {
  switch (r) {
    case loss_reason::expired:
      return "expired";
    case loss_reason::taken_over:
      return "taken over";
    case loss_reason::revoked:
      return "revoked";
    case loss_reason::row_gone:
      return "row gone";
    case loss_reason::database_unreachable:
      return "database unreachable";
    case loss_reason::session_ended:
      return "session ended";
    case loss_reason::read_only:
      return "read-only";
    case loss_reason::row_locked:
      return "row locked";
    case loss_reason::suspended:
      return "suspended";
    case loss_reason::forked:
      return "forked";
  }
  return "?";
}

char const* to_string(release_result r) noexcept {
  switch (r) {
    case release_result::released:
      return "released";
    case release_result::already_lost:
      return "already lost";
    case release_result::handed_over:
      return "handed over";
    case release_result::in_doubt:
      return "in doubt";
  }
  return "?";
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

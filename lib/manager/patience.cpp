#include "manager/patience.hpp"

#include <algorithm>

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

std::optional<steady_clock::time_point> deadline_after(std::chrono::nanoseconds timeout) noexcept {
  auto const now = steady_clock::now();
  if (timeout > steady_clock::time_point::max() - now) return std::nullopt;
  return now + std::max(timeout, 0ns);  // so that what is left until then can be calculated
}

bool patience::over() const noexcept { return deadline && steady_clock::now() >= *deadline; }

boot_time_point patience::ends() const noexcept {
  if (!deadline) return boot_time_point::max();
  auto const left = std::max<std::chrono::nanoseconds>(*deadline - steady_clock::now(), 0ns);
  auto const now = boot_clock::now();
  return left > boot_time_point::max() - now ? boot_time_point::max() : now + left;
}

bool rides_out(engine& in, std::string_view name, error const& e, patience const& p, int attempts) noexcept {
  // A read-only server at first is a wrong address; later it is a switch-over that may yet end, as may a full
  // disk.
  bool const refuses_writes = e.reason() == errc::read_only || e.reason() == errc::storage_full;
  // Likewise a database that nobody can connect to by its name: it is being renamed, or restored. [C76]
  bool const not_there = e.reason() == errc::schema_missing && e.statement().empty();
  bool const may_end = (refuses_writes || not_there) && (in.has_granted || attempts > 1);
  bool const passes = e.reason() == errc::row_locked || e.reason() == errc::conflict;
  bool const ride = (e.retryable() || (may_end && !p.one_attempt)) && (p.rides_out_outages || passes);
  if (e.reason() != errc::row_locked)
    in.events.tell({.kind = event_kind::error, .name = name, .message = e.what()});
  return ride && !(p.one_attempt && in.database.identity().empty());
}

}  // namespace rowlock::managing

#include "manager/wait_policy.hpp"

#include <algorithm>

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

bool wait_policy::over() const noexcept { return deadline && steady_clock::now() >= *deadline; }

boot_time_point wait_policy::ends() const noexcept {
  if (!deadline) return boot_time_point::max();
  auto const left = std::max<std::chrono::nanoseconds>(*deadline - steady_clock::now(), 0ns);
  auto const now = boot_clock::now();
  return left > boot_time_point::max() - now ? boot_time_point::max() : now + left;
}

bool may_end(error const& e) noexcept {
  return e.reason() == errc::read_only || e.reason() == errc::storage_full ||
         (e.reason() == errc::schema_missing && e.statement().empty());  // [C76]
}

bool rides_out(engine& in, std::string_view name, error const& e, wait_policy const& p,
               int attempts) noexcept {
  // At the first attempt it means a wrong address. Later it is an outage that can end.
  bool const ends = may_end(e) && (in.has_granted || attempts > 1);
  bool const passes = e.reason() == errc::row_locked || e.reason() == errc::conflict;
  bool const ride = (e.retryable() || (ends && !p.one_attempt)) && (p.rides_out_outages() || passes);
  if (e.reason() != errc::row_locked)
    in.events.report({.kind = event_kind::error, .name = name, .message = e.what()});
  return ride && !(p.one_attempt && in.database.number() == 0);
}

}  // namespace rowlock::managing

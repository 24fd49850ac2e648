#include "backend/backend.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <utility>

namespace rowlock::backend {

std::int64_t as_int(value const& v) {
  if (auto const* i = std::get_if<std::int64_t>(&v)) return *i;
  throw error(errc::failed, "the database returned something else where a number was expected");
}

std::string const& as_text(value const& v) {
  if (auto const* s = std::get_if<std::string>(&v)) return *s;
  throw error(errc::failed, "the database returned something else where text was expected");
}

std::vector<result> connection::execute_at_once(std::span<step const> steps, boot_time_point) {
  auto const& name = steps.front().what.name;
  throw error(errc::unsupported, fmt::format("{}: this database takes one statement at a time", name), name,
              "", 0);
}

result connection::wait_for_row(statement const& s, std::span<value const>, boot_time_point,
                                std::chrono::nanoseconds, std::stop_token) {
  throw error(errc::unsupported, fmt::format("{}: this database has no row locks", s.name), s.name, "", 0);
}

std::optional<bool> connection::leave_gate_or_close(boot_time_point deadline) noexcept try {
  return leave_gate(deadline);
} catch (std::exception const&) {  // it ends with its session
  close();
  return std::nullopt;
}

left_gate connection::execute_and_leave_gate(statement const& s, std::span<value const> parameters,
                                             boot_time_point deadline) {
  auto done = execute(s, parameters, deadline);
  return {std::move(done), leave_gate_or_close(deadline)};
}

}  // namespace rowlock::backend

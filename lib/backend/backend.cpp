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

void refuse_short_reply() {
  throw error(errc::failed, "the database's reply lacks a row or a column that was asked for");
}

std::chrono::system_clock::time_point as_time(value const& us) {
  std::chrono::microseconds const since_1970(as_int(us));
  if (since_1970 > farthest || since_1970 < -farthest)
    throw error(errc::failed, "the database returned a time that is more than 200 years away from 1970");
  return std::chrono::system_clock::time_point(since_1970);
}

std::chrono::milliseconds as_duration(value const& ms) {
  std::chrono::milliseconds const lasts(as_int(ms));
  if (lasts > farthest || lasts < -farthest)
    throw error(errc::failed, "the database returned a time of more than 200 years");
  return lasts;
}

fencing_token as_token(value const& v) {
  auto const number = as_int(v);
  if (number > 0) return {number};
  throw error(errc::failed,
              fmt::format("the database returned {} where a fencing token was expected", number));
}

std::vector<result> connection::execute_at_once(std::span<step const> steps, boot_time_point) {
  auto const& name = steps.front().what.name;
  throw error(errc::unsupported, fmt::format("{}: this database takes one statement at a time", name), name,
              "", 0);
}

void connection::execute_each(std::span<step const> steps, boot_time_point deadline) {
  for (auto const& one : steps) execute(one.what, one.parameters, deadline);
}

result connection::wait_for_row(statement const& s, std::span<value const>, boot_time_point,
                                std::chrono::nanoseconds, std::stop_token) {
  throw error(errc::unsupported, fmt::format("{}: this database has no row locks", s.name), s.name, "", 0);
}

std::optional<bool> connection::leave_queue_or_close(boot_time_point deadline) noexcept try {
  return leave_queue(deadline);
} catch (std::exception const&) {  // it ends with its session
  close();
  return std::nullopt;
}

left_queue connection::execute_and_leave_queue(statement const& s, std::span<value const> parameters,
                                               boot_time_point deadline) {
  auto done = execute(s, parameters, deadline);
  return {std::move(done), leave_queue_or_close(deadline)};
}

}  // namespace rowlock::backend

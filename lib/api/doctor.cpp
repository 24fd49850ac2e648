#include <fmt/format.h>

#include <rowlock/doctor.hpp>
#include <rowlock/error.hpp>

#include "backend/backend.hpp"
#include "diagnose/examination.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

using namespace std::chrono_literals;

void require_sane(doctor_options const& o) {
  auto const require = [](bool good, std::string const& message) {
    if (!good) throw error(errc::invalid_argument, message);
  };
  require(o.ttl >= 100ms && o.ttl <= 24h * 366,
          fmt::format("ttl of {} ms is out of range: 100 ms to 366 days", o.ttl.count()));
  require(o.reply_timeout >= 10ms && o.reply_timeout <= 1h,
          fmt::format("reply_timeout of {} ms is out of range: 10 ms to 1 h", o.reply_timeout.count()));
}

}  // namespace

char const* to_string(verdict v) noexcept {
  switch (v) {
    case verdict::ok:
      return "ok";
    case verdict::warning:
      return "warning";
    case verdict::error:
      return "error";
    case verdict::unknown:
      return "unknown";
  }
  return "?";
}

doctor::doctor(connection_source source, doctor_options options)
    : source_(std::move(source)), options_(std::move(options)) {
  require_sane(options_);
  backend::table_names::of(source_.implementation()->sql(), options_.schema, options_.table_prefix);
}

std::vector<finding> doctor::examine() {
  return diagnose::examination(source_.implementation(), options_).run();
}

std::optional<old_snapshot> doctor::oldest_snapshot() {
  return diagnose::examination(source_.implementation(), options_).oldest_snapshot();
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

#pragma once
// The options and results of the doctor: <rowlock/doctor.hpp>.

#include <rowlock/export.hpp>

#include <chrono>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The result of one check.
enum class verdict {
  ok,
  warning,  ///< locks work; but what they promise ends with a failover, or they work worse than they could
  error,    ///< locks do not work here, or a lock may be held twice after a crash
  unknown,  ///< the doctor could not find out, for lack of a privilege for instance
};
ROWLOCK_EXPORT char const* to_string(verdict) noexcept;

/// One thing that the doctor looked at.
struct finding {
  std::string check;  ///< what was looked at: a name for programs, such as "schema"
  verdict result = verdict::ok;
  std::string why;     ///< what was found, in a sentence
  std::string remedy;  ///< what to do about it; empty if there is nothing to be done
};

/// Each member has an initializer, so that {.schema = "x"} causes no warning.
struct doctor_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};                            ///< of rowlock's tables; empty: what the search path says
  std::chrono::milliseconds ttl{30'000};           ///< of the locks to be taken; as for mutex_options
  std::chrono::milliseconds reply_timeout{5'000};  ///< of the database's, for each statement
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

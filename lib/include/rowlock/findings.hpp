#pragma once
// The options and results of the doctor: <rowlock/doctor.hpp>.

#include <rowlock/export.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The result of one check.
enum class verdict {
  ok,
  warning,  ///< locks work, but worse than they could, or their promises end with a failover
  error,    ///< locks do not work here, or two owners can hold a lock after a crash
  unknown,  ///< the doctor could not find out, for instance without a privilege
};
ROWLOCK_EXPORT char const* to_string(verdict) noexcept;

/// The result of one check, with a reason and a remedy.
struct finding {
  std::string check;  ///< the check's name for programs, such as "schema"
  verdict result = verdict::ok;
  std::string why;     ///< the facts, in a sentence
  std::string remedy;  ///< empty if there is nothing to do
};

/// Why a server keeps dead rows, which make a hot lock slower. lib/doc/postgresql.md
struct old_snapshot {
  std::string whose;                          ///< a session, a slot, a standby. Empty: nobody's
  std::optional<std::chrono::seconds> age{};  ///< empty where the server does not tell
  std::int64_t transactions = 0;              ///< of how many transactions ago
};

/// The options of the doctor.
struct doctor_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};                            ///< as manager_options::schema
  std::chrono::milliseconds ttl{30'000};           ///< of the locks to be taken, as in mutex_options
  std::chrono::milliseconds reply_timeout{5'000};  ///< of the database's, for each statement
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

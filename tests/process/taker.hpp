#pragma once

#include "contract/fixture.hpp"
#include "support/child_process.hpp"
#include "support/database_server.hpp"

namespace rowlock::test {

/// What lock_taker.cpp says of a lock that it took.
struct taken {
  std::string term;
  std::int64_t token = 0;
  std::string host;
  long pid = 0;
  std::string process;
};

/// The lock taker as a process of its own, with the strategy of the pair; or a lease.
class taker : public child_process {
 public:
  taker(std::string const& url, std::string const& schema, std::string const& name,
        std::chrono::milliseconds ttl);
  taker(fixture const& f, std::string const& name, std::chrono::milliseconds ttl,
        bool own_pid_namespace = false);

  std::string ask(std::string const& command, std::chrono::milliseconds patience = 60s);
  /// Empty if it was not granted.
  std::optional<taken> take(std::chrono::milliseconds wait);
};

}  // namespace rowlock::test

TYPE_TO_STRING_AS("postgresql",
                  std::integral_constant<rowlock::test::server_kind, rowlock::test::server_kind::postgresql>);
TYPE_TO_STRING_AS("mariadb",
                  std::integral_constant<rowlock::test::server_kind, rowlock::test::server_kind::mariadb>);
TYPE_TO_STRING_AS("mysql",
                  std::integral_constant<rowlock::test::server_kind, rowlock::test::server_kind::mysql>);

#pragma once
// What a quorum and its members tell each other. lib/doc/quorum.md

#include <chrono>
#include <cstdint>
#include <optional>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

namespace rowlock::strategies {

/// The vote that a member is asked for.
struct wanted_vote {
  std::string epoch_id{};               ///< the database must vote in it
  std::optional<std::int64_t> token{};  ///< that other members granted; empty: this is the first
  std::string former{};                 ///< the quorum's previous term here; must not be revoked
};

/// A member's record of its quorum.
struct member_record {
  std::string quorum_id;  ///< empty: none
  std::int64_t epoch = 0;
  std::string epoch_id;              ///< random, new with each epoch
  std::vector<std::string> members;  ///< the ids of their databases, in order
  std::chrono::milliseconds max_ttl{0};
  bool votes = false;
};

struct member_state {
  member_record record;
  std::string database_id;
  std::chrono::system_clock::time_point clock;
  fencing_token highest{};  ///< if asked for
};

}  // namespace rowlock::strategies

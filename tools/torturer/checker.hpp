#pragma once
// Reads a history and says where it breaks a promise. Knows nothing of databases: a pure function.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "history.hpp"

namespace rowlock::torture {

/// What was promised for the locks of a history.
struct promise {
  std::int64_t limit = 1;          ///< units of one name that may be held at a time
  bool overlaps_happen = false;    ///< they are counted, and break nothing
  bool tokens_rise = true;         ///< in the order of the terms
  std::chrono::nanoseconds ttl{};  ///< how long a dead one may keep a lock
  /// No longer between two grants of one name that somebody waits for, faults not counted.
  std::chrono::nanoseconds longest_gap{};
  bool stops_hit_everybody = false;  ///< also that of a single process
  bool together = false;  ///< progress of any name is enough: who waits for one may want another, too
};

struct violation {
  std::string rule;
  std::string text;
  std::vector<record> records;  ///< those that show it
  /// No fault was there, but the database was away by itself meanwhile: this is no proof of anything.
  bool in_outage = false;
};

struct verdict {
  std::int64_t acquisitions = 0;
  std::int64_t hand_overs = 0;  ///< of these: another thread had had the name before
  std::int64_t refused = 0;
  std::int64_t errors = 0;
  std::int64_t outages = 0;         ///< of these: the database was away, without a fault
  std::int64_t unexplained = 0;     ///< of these: neither the database was away, nor was there a fault
  std::string first_unexplained{};  ///< what one of them said
  std::int64_t losses = 0;
  std::int64_t faults = 0;
  std::int64_t deeds = 0;
  std::int64_t failed_work =
      0;                      ///< what an operator should have done and could not, which no history tells of
  std::int64_t overlaps = 0;  ///< where promise::overlaps_happen
  std::int64_t faults_in_flight = 0;  ///< of these: somebody who was hit had asked, or gave back
  std::chrono::nanoseconds longest_gap{};
  std::int64_t added = 0;  ///< of a ledger, which no history tells of
  std::int64_t lost_additions = 0;
  std::vector<violation> violations;
};

/// When somebody held a lock, as the rule "overlap" has it.
struct interval {
  record got;
  std::int64_t end = 0;
};
std::vector<interval> intervals(std::vector<record> const& history);

/// The rules, by the names that violations have:
///   overlap      trusted intervals of one name never have more units together than the limit. An interval
///                begins when the caller has the lock; it ends with the last trust that the caller was told,
///                or before, when it is told of the loss, begins to give back, or dies.
///   token        of two terms of one name whose intervals follow each other, the later has the higher token
///                Where tokens do not rise in that order (as several may hold a name at a time): who asked
///                when another one had the name already has a higher one than that.
///   term         no two grants have the same term
///   late loss    a loss is told before trust ends, or half a second later (a machine may be busy),
///                unless the process was stopped; nor is a lock given to anybody later than that
///   loss         nothing is lost without a fault
///   release      what was not lost is given back; after a fault it may turn out to be lost
///   progress     while somebody waits there is a grant at least every promise::longest_gap
///   waits        nobody still waits at the end
/// What is lost, or not got, while the database is away without a fault is marked as that.
/// The last time of the history is its end.
verdict check(std::vector<record> const& history, promise const&);

}  // namespace rowlock::torture

#pragma once
// The reaper's statements. For each page their order is: look, raise the floor, remove.
// lib/sql/<dialect>/reap.sql has the statements that can come in between.

#include <chrono>
#include <optional>
#include <rowlock/reaping.hpp>
#include <span>
#include <string>
#include <vector>

#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

enum class reaped_table { locks, tokens };

/// At most `size` names after `after`, sorted.
struct page {
  reaped_table table = reaped_table::locks;
  std::string after;
  int size = 0;
};

/// A page at one moment. It only decides where to go on, and the floor.
struct page_look {
  std::int64_t examined = 0;
  std::string last;  ///< name; empty if there was none
  reap_counts due;
  std::int64_t left_observed = 0;
  std::int64_t left_ahead = 0;
  std::int64_t highest_token = 0;  ///< of the rows that are due
  std::int64_t kept = 0;           ///< by a clock that went back: see kept()
};

struct permits_look {
  std::int64_t examined = 0;
  name_and_term last;
  std::vector<name_and_term> due;
};

/// A term whose expiry is further away than it can have set.
struct kept_term {
  std::string name;
  rowlock::strategy strategy = rowlock::strategy::lease;
  term_id term;
  std::int64_t renewals = 0;
  std::chrono::milliseconds longest{0};
  std::int64_t incarnation = 0;  ///< of the database; see quarantine.hpp
  boot_time_point seen;          ///< after the reply
};

class reaping {
 public:
  reaping(backend::statement_book const& book, std::chrono::milliseconds idle) : book_(book), idle_(idle) {}

  page_look look(backend::connection&, page const&, boot_time_point deadline) const;

  /// Makes the floor at least `token`, durably.
  void raise_floor(backend::connection&, std::int64_t token, boot_time_point deadline) const;

  /// Deletes the rows of the page that are due now, with tokens up to the floor. One transaction. Skips
  /// locked rows.
  reap_counts remove(backend::connection&, page const&, page_look const&, boot_time_point deadline) const;

  std::vector<kept_term> kept(backend::connection&, page const&, page_look const&,
                              boot_time_point deadline) const;

  /// Ends a term that was unchanged for longer than it can last. Waits for its row. @return false if it
  /// changed
  bool end(backend::connection&, kept_term const&, boot_time_point deadline) const;

  /// At most `size` permits after this one, sorted by name and term.
  permits_look look_at_permits(backend::connection&, name_and_term const& after, int size,
                               boot_time_point deadline) const;
  /// Deletes the expired ones. Skips locked rows. @return how many
  std::int64_t remove_permits(backend::connection&, std::span<name_and_term const> due,
                              boot_time_point deadline) const;

  std::int64_t floor(backend::connection&, boot_time_point deadline) const;

  /// Records a run that has just ended. `report`: JSON.
  void record(backend::connection&, std::chrono::milliseconds duration, owner_id const& who,
              std::string const& report, boot_time_point deadline) const;
  std::optional<last_reap> last(backend::connection&, boot_time_point deadline) const;

 private:
  reap_counts lock_and_remove(backend::connection&, page const&, page_look const&,
                              boot_time_point deadline) const;

  backend::statement_book const& book_;
  std::chrono::milliseconds idle_;
};

}  // namespace rowlock::strategies

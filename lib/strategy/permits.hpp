#pragma once
// Strategies shared and semaphore: several owners hold a name, each by a permit, a row of rowlock_permits.
// The name's row in rowlock_locks, the anchor, puts takers in order. See lib/doc/permits.md.

#include "strategy/locking_strategy.hpp"

namespace rowlock::strategies {

/// The units of a writer, and the limit of a shared_mutex.
inline constexpr std::int64_t all_units = 2147483647;

class permits final : public locking_strategy {
 public:
  permits(backend::statement_book const& book, rowlock::strategy which)
      : book_(book), rows_(book, term_rows::table::permits), which_(which) {}

  /// One transaction that counts under the anchor's lock. If too many units are taken, a SELECT tells whether
  /// permits have expired. They are deleted, and the transaction is repeated.
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;
  given_back give_back(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                       boot_time_point deadline) const override;
  given_back give_back_at_queue(backend::connection&, name_and_term const&,
                                boot_time_point deadline) const override;
  std::optional<term_row> find_doubtful(backend::connection&, std::string const& name,
                                        std::span<term_id const> terms,
                                        boot_time_point deadline) const override;

  /// For takers without a limit. @throws error(errc::strategy_mismatch)
  void set_limit(backend::connection&, std::string const& name, std::int64_t limit,
                 boot_time_point deadline) const;
  /// By `limit`, or else by the stored limit; empty if there is none.
  std::optional<std::int64_t> free_units(backend::connection&, std::string const& name,
                                         std::optional<std::int64_t> limit, boot_time_point deadline) const;

  /// Deletes the expired ones. Skips locked rows. @return how many
  static std::int64_t purge(backend::connection&, backend::statement_book const&,
                            std::span<name_and_term const>, boot_time_point deadline);

 private:
  struct standing;
  std::optional<standing> look(backend::connection&, std::string const& name, backend::value const& obeyed,
                               boot_time_point deadline) const;
  /// For a take. @throws error if it can never be granted
  std::optional<standing> look(backend::connection&, take_request const&, boot_time_point deadline) const;
  std::optional<granted> grant(backend::connection&, take_request const&, boot_time_point deadline,
                               boot_time_point& sent_at) const;
  std::optional<std::int64_t> count(backend::connection&, take_request const&,
                                    boot_time_point deadline) const;
  void purge(backend::connection&, std::string const& name, boot_time_point deadline) const;
  /// Writes its intent, if it may. @return whether it was written
  bool intend(backend::connection&, take_request const&, boot_time_point deadline) const;
  refused refuse(backend::connection&, take_request const&, bool by_nobody, boot_time_point deadline) const;

  backend::statement_book const& book_;
  term_rows const rows_;
  rowlock::strategy const which_;
};

}  // namespace rowlock::strategies

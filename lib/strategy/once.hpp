#pragma once
// Strategy once: a lease whose row can end as a record that the work is done. See lib/doc/once.md.

#include "strategy/lease.hpp"

namespace rowlock::strategies {

class once final : public lease {
 public:
  explicit once(backend::statement_book const& book) : lease(book, rowlock::strategy::once) {}

  /// 1, because only its row tells whether a name is done or held.
  std::size_t most_at_once() const noexcept override { return 1; }

  /// One UPDATE by term. If it met no row, term_rows::keep_record() tells whether the record is there.
  bool record(backend::connection&, record_of_done const&, boot_time_point deadline) const override;
};

}  // namespace rowlock::strategies

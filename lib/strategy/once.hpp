#pragma once
// Strategy once: a lease whose row can end as a record that the work is done. lib/doc/once.md says who may
// come in between.

#include "strategy/lease.hpp"

namespace rowlock::strategies {

class once final : public lease {
 public:
  explicit once(backend::statement_book const& book) : lease(book, rowlock::strategy::once) {}

  /// One by one: a name that is done is told from one that is held by reading its row.
  std::size_t most_at_once() const noexcept override { return 1; }

  /// One UPDATE by term. If it met no row, another one tells whether the record is there already, and is a
  /// commit behind that which made it.
  bool record(backend::connection&, record_of_done const&, boot_time_point deadline) const override;
};

}  // namespace rowlock::strategies

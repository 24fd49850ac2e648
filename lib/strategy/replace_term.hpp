#pragma once
// Ends a term by force although a hand-off could pass it on: lib/doc/hand_on.md.

#include <chrono>
#include <rowlock/types.hpp>

#include "backend/backend.hpp"
#include "backend/statement_book.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

/// Replaces a term by one that ends by itself. Not for permits and quorums, which have no hand-off: see
/// term_rows::revoke(). @return false if the term is gone
bool replace_term(backend::connection&, backend::statement_book const&, name_and_term const&,
                  term_id const& by, std::chrono::milliseconds lasts, boot_time_point deadline);

}  // namespace rowlock::strategies

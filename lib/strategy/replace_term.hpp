#pragma once
// Taking a term away by force where it may go on from thread to thread: lib/doc/hand_on.md.

#include <chrono>
#include <rowlock/types.hpp>

#include "backend/backend.hpp"
#include "backend/statement_book.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

/// Takes a term away from its holder, and leaves one in its place that ends by itself. Not of permits or a
/// quorum, whose terms go to no other thread: see term_rows::revoke(). @return false if it is not there
bool replace_term(backend::connection&, backend::statement_book const&, name_and_term const&,
                  term_id const& by, std::chrono::milliseconds lasts, boot_time_point deadline);

}  // namespace rowlock::strategies

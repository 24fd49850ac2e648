#pragma once
// Taking a term away by force where it may go on from thread to thread: lib/doc/hand_on.md.

#include <chrono>
#include <rowlock/types.hpp>
#include <string>

#include "backend/backend.hpp"
#include "backend/statement_book.hpp"

namespace rowlock::strategies {

/// Takes the term of a name away from its holder, and leaves a term in its place that ends by itself. Not of
/// permits or a quorum, whose terms go to no other thread: see term_rows::revoke(). @return false if nobody
/// holds it
bool replace_term(backend::connection&, backend::statement_book const&, std::string const& name,
                  term_id const& by, std::chrono::milliseconds lasts, boot_time_point deadline);

}  // namespace rowlock::strategies

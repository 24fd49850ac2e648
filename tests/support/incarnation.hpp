#pragma once

#include "backend/backend.hpp"
#include "backend/statement_book.hpp"

namespace rowlock::test {

/// What sessions::database::open() does for a session: otherwise MySQL and MariaDB grant it nothing until it
/// asks.
inline void learn_incarnation(backend::connection& c, backend::statement_book const& book) {
  if (book.remembers_pulse())
    c.execute(book.at("pulse_here"), {}, boot_clock::now() + std::chrono::seconds(30));
}

}  // namespace rowlock::test

#pragma once
// Tests write to rowlock's tables as a person does, without naming a schema.

#include <chrono>

#include "backend/backend.hpp"

namespace rowlock::test {

/// rowlock's own sessions look for tables in no schema of the user's. From now on this one does.
inline void look_at_tables(backend::connection& c) {
  auto const deadline = boot_clock::now() + std::chrono::seconds(10);
  auto const schema = c.find_schema("rowlock_meta", false, deadline);
  if (schema && !schema->empty()) c.script("SET search_path = " + *schema, deadline);
}

}  // namespace rowlock::test

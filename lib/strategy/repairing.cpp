#include "strategy/repairing.hpp"

#include <vector>

namespace rowlock::strategies {

using backend::value;

repairing::tokens repairing::look(backend::connection& c, std::string const& name,
                                  boot_time_point deadline) const {
  auto const found = c.execute(book_.at("repair_look"), std::vector<value>{name}, deadline);
  auto const unusable = [&](std::size_t column) {
    auto const& token = found.rows.at(0).at(column);
    return !backend::is_null(token) && backend::as_int(token) > highest_usable_token;
  };
  return {unusable(0), unusable(1)};
}

bool repairing::has_no_room(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  auto const now = look(c, name, deadline);
  return now.of_row_unusable || now.of_entry_unusable;
}

repair_result repairing::repair(backend::connection& c, std::string const& name,
                                boot_time_point deadline) const {
  std::vector<value> const parameters{name};
  auto const changes = [&](char const* statement) {
    return c.execute(book_.at(statement), parameters, deadline).affected > 0;
  };
  auto const now = look(c, name, deadline);
  if (now.of_row_unusable && !changes("repair_lock")) return repair_result::held;
  if (now.of_entry_unusable && !changes("repair_tokens")) return repair_result::held;
  bool const admitted = changes("repair_admitted");
  return admitted || now.of_row_unusable || now.of_entry_unusable ? repair_result::repaired
                                                                  : repair_result::nothing;
}

}  // namespace rowlock::strategies

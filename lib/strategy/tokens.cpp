#include "strategy/tokens.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

namespace rowlock::strategies {

using backend::value;

fencing_token tokens::draw(backend::connection& c, std::string const& name, boot_time_point deadline) const {
  std::vector<value> const parameters{name};
  // The reaper can delete a new row at once, but not for ever.
  for (int round = 0; round < 10; ++round) {
    auto const drawn = c.execute(book_.at("token_draw"), parameters, deadline);
    if (!drawn.rows.empty()) return backend::as_token(drawn.rows[0].at(0));
    if (drawn.affected > 0) {
      if (drawn.number) return {*drawn.number};
      auto const read = c.execute(book_.at("token_read"), parameters, deadline);
      if (!read.rows.empty()) return backend::as_token(read.rows.at(0).at(0));
    }
    c.execute(book_.at("token_insert"), parameters, deadline);
  }
  throw error(errc::conflict,
              fmt::format("'{}': its row in the table of tokens is deleted as soon as it is made", name));
}

}  // namespace rowlock::strategies

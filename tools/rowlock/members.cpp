#include "members.hpp"

#include <fmt/format.h>

#include "exit_status.hpp"

namespace rowlock::tool {

members::members(std::vector<database> const& each, manager_options options) {
  if (each.size() < 3)
    throw failure(exit_usage,
                  fmt::format("{} databases: a majority that survives one of them needs three at least. "
                              "Say --db three times, or once",
                              each.size()));
  std::vector<lock_manager*> managers;
  for (auto const& db : each) {
    options.table_prefix = db.table_prefix;
    options.schema = db.schema;
    managers_.push_back(std::make_unique<lock_manager>(db.url, options));
    managers.push_back(managers_.back().get());
  }
  quorum_ = std::make_unique<quorum>(std::move(managers));
}

}  // namespace rowlock::tool

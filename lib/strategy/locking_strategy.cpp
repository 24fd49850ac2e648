#include "strategy/locking_strategy.hpp"

#include <rowlock/error.hpp>

namespace rowlock::strategies {

void locking_strategy::was_used(backend::connection&, std::string const&, boot_time_point) const {}
void locking_strategy::ping(backend::connection&, boot_time_point) const {}
std::vector<locking_strategy::held> locking_strategy::holders(backend::connection&, name_range const&,
                                                              boot_time_point) const {
  return {};
}

std::optional<holder_info> locking_strategy::holder(backend::connection& c, std::string const& name,
                                                    boot_time_point deadline) const {
  auto found = holders(c, {name, name}, deadline);
  if (found.empty()) return std::nullopt;
  return std::move(found.front().by);
}

std::optional<term_row> locking_strategy::find_doubtful(backend::connection&, std::string const&,
                                                        std::span<term_id const>, boot_time_point) const {
  return std::nullopt;
}

given_back locking_strategy::give_back_at_queue(backend::connection&, name_and_term const&,
                                                boot_time_point) const {
  throw error(errc::unsupported, "this strategy's locks are given back on their own sessions");
}

bool locking_strategy::record(backend::connection&, record_of_done const&, boot_time_point) const {
  throw error(errc::unsupported, "this strategy can't record that work is done: use once");
}

outcome_for_all locking_strategy::take_all(backend::connection&, take_request const&,
                                           std::span<wanted_lock const>, boot_time_point,
                                           boot_time_point&) const {
  throw error(errc::unsupported, "this strategy can't take several locks at once: use lease");
}

std::vector<std::optional<granted>> locking_strategy::take_each(backend::connection&, take_request const&,
                                                                std::span<wanted_lock const> wanted,
                                                                boot_time_point, boot_time_point&) const {
  return std::vector<std::optional<granted>>(wanted.size());
}

std::vector<given_back> locking_strategy::give_back_all(backend::connection&,
                                                        std::span<name_and_term const> which,
                                                        boot_time_point) const {
  return std::vector<given_back>(which.size());
}

}  // namespace rowlock::strategies

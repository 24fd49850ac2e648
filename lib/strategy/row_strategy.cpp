#include "strategy/row_strategy.hpp"

#include <fmt/format.h>

#include <array>
#include <rowlock/error.hpp>
#include <utility>

namespace rowlock::strategies {

using backend::value;

given_back what_became(backend::result const& done) {
  bool const returned = !done.rows.empty() && !done.rows[0].empty();
  return {.was_there = done.affected > 0,
          .others_wait = returned ? backend::as_int(done.rows[0][0]) != 0 : done.number == 2};
}

given_back row_strategy::give_back(backend::connection& c, name_and_term const& which,
                                   std::chrono::milliseconds at_least, boot_time_point deadline) const {
  if (at_least.count() > 0) return {.was_there = rows_.release_at_least(c, which, at_least, deadline)};
  return what_became(
      c.execute(book_.at(release_statement()), std::array<value, 2>{which.name, which.term.value}, deadline));
}

given_back row_strategy::give_back_at_queue(backend::connection& c, name_and_term const& which,
                                            boot_time_point deadline) const {
  auto const left = c.execute_and_leave_queue(book_.at(release_statement()),
                                              std::array<value, 2>{which.name, which.term.value}, deadline);
  auto done = what_became(left.done);
  done.others_wait = left.others_wait.value_or(done.others_wait);
  return done;
}

std::optional<term_row> row_strategy::find_doubtful(backend::connection& c, std::string const& name,
                                                    std::span<term_id const> /*terms*/,
                                                    boot_time_point deadline) const {
  return rows_.read(c, name, deadline);
}

refused refused_by(std::optional<term_row> row, std::optional<superseded> const& old) {
  bool const by_nobody = !old && (!row || row->takeable());
  return {std::move(row), by_nobody};
}

std::int64_t checked_token(std::int64_t highest, int tokens) {
  if (highest >= tokens) return highest;
  throw error(errc::in_doubt, fmt::format("the database has answered with {}, which is no token", highest));
}

std::int64_t token_in(backend::result const& reply, int tokens) {
  auto const* const first = reply.rows.empty() || reply.rows[0].empty() ? nullptr : &reply.rows[0][0];
  auto const* const highest = first == nullptr ? nullptr : std::get_if<std::int64_t>(first);
  if (highest == nullptr) throw error(errc::in_doubt, "the database has answered without a token");
  return checked_token(*highest, tokens);
}

std::vector<value> granting_parameters(take_request const& r, rowlock::strategy how) {
  std::vector<value> all;
  all.reserve(16);  // with what a strategy adds
  auto const add = [&all](auto&& one) { all.emplace_back(std::forward<decltype(one)>(one)); };
  add(r.name);
  add(to_string(how));
  add(r.term.value);
  add(r.owner.host);
  add(r.owner.pid);
  add(r.owner.process);
  add(r.owner.thread);
  add(std::int64_t{r.ttl.count()});
  add(to_string(r.takeover));
  if (r.hard_limit.count() == 0)
    add(nullptr);
  else
    add(std::int64_t{r.hard_limit.count()});
  add(r.note);
  return all;
}

void require_strategy(term_row const& row, rowlock::strategy how) {
  if (row.holder.strategy == how) return;
  throw error(errc::strategy_mismatch,
              fmt::format("'{}' is in use with strategy {}, not {}: use that one, or another name", row.name,
                          to_string(row.holder.strategy), to_string(how)));
}

}  // namespace rowlock::strategies

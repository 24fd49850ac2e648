#include "strategy/lock_rows.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>

#include "base/random_id.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {
namespace {

using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

std::int64_t int_or_zero(value const& v) { return is_null(v) ? 0 : as_int(v); }
std::string text_or_empty(value const& v) { return is_null(v) ? std::string() : as_text(v); }

// Columns in the order of lock_read and lock_list.
lock_row decode(backend::row const& columns) {
  auto const& how = as_text(columns.at(1));
  auto const known = strategy_from_string(how);
  if (!known)
    throw error(errc::schema_new,
                fmt::format("lock '{}' was taken with strategy '{}', which this version does not know",
                            as_text(columns.at(0)), how));
  lock_row r;
  r.name = as_text(columns.at(0));
  r.term.value = text_or_empty(columns.at(2));
  r.renewals = as_int(columns.at(8));
  r.ttl = std::chrono::milliseconds(as_int(columns.at(9)));
  r.takeover =
      as_text(columns.at(10)) == to_string(takeover::observed) ? takeover::observed : takeover::clock;
  r.hard_limit_reached = int_or_zero(columns.at(15)) != 0;
  r.holder.how = *known;
  r.holder.token.value = as_int(columns.at(3));
  r.holder.owner = {text_or_empty(columns.at(4)), int_or_zero(columns.at(5)), text_or_empty(columns.at(6)),
                    int_or_zero(columns.at(7))};
  r.holder.acquired_at =
      std::chrono::system_clock::time_point(std::chrono::microseconds(int_or_zero(columns.at(11))));
  r.holder.expires_in = std::chrono::milliseconds(as_int(columns.at(12)));
  r.holder.revoked = as_int(columns.at(13)) != 0;
  r.holder.note = text_or_empty(columns.at(14));
  return r;
}

std::string to_json(std::span<name_and_term const> wanted) {
  auto list = nlohmann::json::array();
  for (auto const& [name, term] : wanted) list.push_back({{"name", name}, {"term", term.value}});
  return list.dump();
}

}  // namespace

std::optional<lock_row> lock_rows::read(backend::connection& c, std::string const& name,
                                        boot_time_point deadline) const {
  auto const found = c.execute(book_.at("lock_read"), std::vector<value>{name}, deadline);
  if (found.rows.empty()) return std::nullopt;
  return decode(found.rows.front());
}

std::vector<lock_row> lock_rows::list(backend::connection& c, bool idle_too, boot_time_point deadline) const {
  auto const found = c.execute(book_.at("lock_list"), std::vector<value>{std::int64_t{idle_too}}, deadline);
  std::vector<lock_row> rows;
  rows.reserve(found.rows.size());
  for (auto const& columns : found.rows) rows.push_back(decode(columns));
  return rows;
}

std::vector<term_id> lock_rows::renew(backend::connection& c, std::span<name_and_term const> wanted,
                                      boot_time_point deadline) const {
  if (!book_.returning()) return lock_and_renew(c, to_json(wanted), deadline);
  auto const done = c.execute(book_.at("lock_renew"), std::vector<value>{to_json(wanted)}, deadline);
  std::vector<term_id> terms;
  terms.reserve(done.rows.size());
  for (auto const& columns : done.rows) terms.push_back({as_text(columns.at(0))});
  return terms;
}

// Where an UPDATE can neither skip locked rows nor say which ones it met: locks those that it can get at
// once, then renews them, in one transaction.
std::vector<term_id> lock_rows::lock_and_renew(backend::connection& c, std::string const& wanted,
                                               boot_time_point deadline) const {
  std::vector<term_id> terms;
  in_transaction(c, book_, deadline, [&] {
    std::vector<name_and_term> due;
    for (auto const& columns :
         c.execute(book_.at("lock_renew_due"), std::vector<value>{wanted}, deadline).rows)
      due.push_back({as_text(columns.at(0)), {as_text(columns.at(1))}});
    if (due.empty()) return false;
    c.execute(book_.at("lock_renew"), std::vector<value>{to_json(due)}, deadline);
    for (auto& d : due) terms.push_back(std::move(d.term));
    return true;
  });
  return terms;
}

std::vector<term_state> lock_rows::check(backend::connection& c, std::span<name_and_term const> wanted,
                                         boot_time_point deadline) const {
  auto const found = c.execute(book_.at("lock_check"), std::vector<value>{to_json(wanted)}, deadline);
  std::vector<term_state> states;
  states.reserve(found.rows.size());
  for (auto const& columns : found.rows)
    states.push_back({{as_text(columns.at(0))}, as_int(columns.at(1)) != 0, as_int(columns.at(2)) != 0});
  return states;
}

bool lock_rows::is_locked(backend::connection& c, name_and_term const& which,
                          boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value};
  if (!c.execute(book_.at("lock_idle"), parameters, deadline).rows.empty()) return false;
  return !check(c, std::span(&which, 1), deadline).empty();
}

bool lock_rows::extend(backend::connection& c, name_and_term const& which, std::chrono::milliseconds duration,
                       boot_time_point deadline) const {
  auto const done =
      c.execute(book_.at("lock_extend"),
                std::vector<value>{which.name, which.term.value, std::int64_t{duration.count()}}, deadline);
  return done.affected > 0;
}

bool lock_rows::release_at_least(backend::connection& c, name_and_term const& which,
                                 std::chrono::milliseconds at_least, boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value, std::int64_t{at_least.count()},
                                      base::random_id()};
  return c.execute(book_.at("lock_release_at_least"), parameters, deadline).affected > 0;
}

bool lock_rows::revoke(backend::connection& c, std::string const& name, revoke_mode mode,
                       boot_time_point deadline) const {
  auto const& statement = book_.at(mode == revoke_mode::now ? "lock_revoke_now" : "lock_revoke");
  return c.execute(statement, std::vector<value>{name}, deadline).affected > 0;
}

}  // namespace rowlock::strategies

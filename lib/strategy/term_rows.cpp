#include "strategy/term_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <rowlock/error.hpp>
#include <tuple>
#include <utility>

#include "base/printable.hpp"
#include "base/random_id.hpp"
#include "base/text.hpp"
#include "strategy/replace_term.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {
namespace {

using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

std::int64_t int_or_zero(value const& v) { return is_null(v) ? 0 : as_int(v); }
std::string text_or_empty(value const& v) { return is_null(v) ? std::string() : as_text(v); }

using backend::farthest;

std::chrono::milliseconds readable(std::chrono::milliseconds d, char const* what, std::string& unreadable) {
  auto const near = std::clamp(d, -farthest, farthest);
  if (near != d) unreadable = fmt::format("its {} is more than 200 years away", what);
  return near;
}

std::chrono::system_clock::time_point acquired_at(value const& us, std::string& unreadable) {
  auto const since_1970 =
      readable(std::chrono::floor<std::chrono::milliseconds>(std::chrono::microseconds(int_or_zero(us))),
               "acquired_at", unreadable);
  if (!unreadable.empty()) return std::chrono::system_clock::time_point(since_1970);
  return std::chrono::system_clock::time_point(std::chrono::microseconds(int_or_zero(us)));
}

// The zero date of some databases is no date.
std::chrono::milliseconds expires_in(value const& ms, std::string& unreadable) {
  if (!is_null(ms)) return readable(std::chrono::milliseconds(as_int(ms)), "expires_at", unreadable);
  unreadable = "its expires_at is no date";
  return -farthest;
}

std::string unknown_word(char const* what, std::string const& word) {
  return fmt::format("its {} is '{}', which this version does not know", what, word);
}

// The columns of lock_waiters; lock_locked_by has one more.
waiters_by_name sessions(backend::connection& c, backend::statement const& which,
                         std::span<std::string const> names, boot_time_point deadline) {
  waiters_by_name found;
  for (auto const& columns : c.execute(which, std::vector<value>{base::json_list(names)}, deadline).rows) {
    auto& of_name = found[as_text(columns.at(0))];
    if (is_null(columns.at(1))) continue;
    of_name.push_back({text_or_empty(columns.at(2)), as_int(columns.at(1)), text_or_empty(columns.at(3)),
                       columns.size() > 4 ? text_or_empty(columns.at(4)) : std::string()});
  }
  return found;
}

// The columns of lock_read and lock_list.
term_row decode(backend::row const& columns) {
  term_row r;
  r.name = as_text(columns.at(0));
  r.term.value = text_or_empty(columns.at(2));
  r.renewals = as_int(columns.at(8));
  r.ttl = readable(std::chrono::milliseconds(as_int(columns.at(9))), "ttl", r.unreadable);
  r.hard_limit_reached = int_or_zero(columns.at(15)) != 0;
  r.holder.token.value = as_int(columns.at(3));
  r.holder.owner = {text_or_empty(columns.at(4)), int_or_zero(columns.at(5)), text_or_empty(columns.at(6)),
                    int_or_zero(columns.at(7))};
  r.holder.acquired_at = acquired_at(columns.at(11), r.unreadable);
  r.holder.expires_in = expires_in(columns.at(12), r.unreadable);
  r.holder.revoked = as_int(columns.at(13)) != 0;
  r.holder.note = text_or_empty(columns.at(14));
  if (!is_null(columns.at(16)) && as_int(columns.at(16)) > 0)
    r.longest = readable(std::chrono::milliseconds(as_int(columns.at(16))), "longest", r.unreadable);
  return r;
}

// Only a record has these values: lib/doc/once.md.
bool is_record(backend::row const& columns, term_row const& r) {
  return r.holder.strategy == strategy::once && !r.term.empty() && is_null(columns.at(6)) && r.renewals == 0;
}

// The columns that decide how the row is read.
void decode_kind(backend::row const& columns, term_row& r) {
  auto const& how = as_text(columns.at(1));
  auto const& when = as_text(columns.at(10));
  auto const known = strategy_from_string(how);
  if (!known) throw error(errc::schema_new, unknown_word("strategy", how));
  r.holder.strategy = *known;
  r.holder.done = is_record(columns, r);
  r.takeover = when == to_string(takeover::observed) ? takeover::observed : takeover::clock;
  if (when != to_string(r.takeover)) throw error(errc::schema_new, unknown_word("takeover", when));
}

term_row decode_known(backend::row const& columns) {
  auto row = decode(columns);
  try {
    decode_kind(columns, row);
  } catch (error const& e) {
    throw error(e.reason(), fmt::format("lock '{}': {}", row.name, base::plain_message(e)));
  }
  return row;
}

term_row decode_if_possible(backend::row const& columns) {
  term_row row;
  try {
    row = decode(columns);
    decode_kind(columns, row);
  } catch (error const& e) {
    row.name = text_or_empty(columns.at(0));
    row.unreadable = base::plain_message(e);
  }
  return row;
}

}  // namespace

bool term_row::takeable() const noexcept {
  return term.empty() || (takeover == rowlock::takeover::clock && holder.expires_in.count() <= 0);
}

std::optional<std::chrono::milliseconds> term_row::must_be_silent_for() const {
  if (term.empty() || !unreadable.empty()) return std::nullopt;
  if (takeover == takeover::observed) return ttl;
  if (longest && holder.expires_in > *longest) return longest;
  return std::nullopt;
}

// In JSON a control character has six bytes, and a quote two.
std::size_t room_for(name_and_term const& which) noexcept {
  std::size_t bytes = which.term.value.size() + 24;
  for (char const c : which.name)
    bytes += static_cast<unsigned char>(c) < ' ' || c == '"' || c == '\\' ? 6 : 1;
  return bytes;
}

void begin_entry(std::string& entries, std::string_view name, term_id const& term) {
  entries += entries.empty() ? R"({"name":)" : R"(,{"name":)";
  base::append_json(entries, name);
  entries += R"(,"term":)";
  base::append_json(entries, term.value);
}

std::string in_brackets(std::string entries) {
  entries.insert(0, 1, '[');
  entries += ']';
  return entries;
}

std::string to_json(std::span<name_and_term const> wanted) {
  std::string entries;
  for (auto const& [name, term] : wanted) {
    begin_entry(entries, name, term);
    entries += '}';
  }
  return in_brackets(std::move(entries));
}

backend::statement const& term_rows::at(char const* statement, bool durable) const {
  return one_for_each_name() ? book_.at(statement, durable)
                             : book_.at(std::string(backend::permits_prefix) + statement, durable);
}

std::optional<term_row> term_rows::read(backend::connection& c, std::string const& name,
                                        boot_time_point deadline) const {
  auto const found = c.execute(at("lock_read"), std::vector<value>{name}, deadline);
  if (found.rows.empty()) return std::nullopt;
  return decode_known(found.rows.front());
}

std::vector<std::optional<term_row>> term_rows::read_all(backend::connection& c,
                                                         std::span<name_and_term const> wanted,
                                                         boot_time_point deadline) const {
  std::map<std::string_view, std::size_t> place;
  for (std::size_t i = 0; i < wanted.size(); ++i) place.emplace(wanted[i].name, i);
  std::vector<std::optional<term_row>> rows(wanted.size());
  for (auto const& columns :
       c.execute(book_.at("all_read"), std::vector<value>{to_json(wanted)}, deadline).rows)
    if (auto const at = place.find(as_text(columns.at(0))); at != place.end())
      rows[at->second] = decode_known(columns);
  return rows;
}

std::vector<term_row> term_rows::list(backend::connection& c, rows_wanted const& w,
                                      boot_time_point deadline) const {
  std::vector<value> const parameters{std::int64_t{w.idle},
                                      std::int64_t{w.done},
                                      std::int64_t{w.held_longer_than.count()},
                                      w.like,
                                      w.from,
                                      w.to,
                                      w.most};
  std::vector<term_row> rows;
  for (auto const& columns : c.execute(book_.at("lock_list"), parameters, deadline).rows)
    rows.push_back(decode_if_possible(columns));
  return rows;
}

std::optional<std::string> term_rows::list_end(backend::connection& c, std::string const& from,
                                               std::int64_t rows, boot_time_point deadline) const {
  auto const found = c.execute(book_.at("lock_list_end"), std::vector<value>{from, rows}, deadline);
  auto const& last = found.rows.at(0).at(0);
  return is_null(last) ? std::nullopt : std::optional(as_text(last));
}

std::vector<term_row> term_rows::list_permits(backend::connection& c, permits_wanted const& w,
                                              boot_time_point deadline) const {
  std::vector<value> const parameters{std::int64_t{w.held_longer_than.count()}, w.like, w.from, w.after,
                                      w.most};
  std::vector<term_row> rows;
  for (auto const& columns : c.execute(book_.at("permit_list"), parameters, deadline).rows) {
    auto& row = rows.emplace_back(decode_if_possible(columns));
    row.term = term_id{as_text(columns.at(2))};  // always: the next page begins there
    row.holder.units = as_int(columns.at(17));
    row.holder.limit = as_int(columns.at(18));
  }
  return rows;
}

void term_rows::add_units(backend::connection& c, std::string const& name, std::span<term_row> rows,
                          boot_time_point deadline) const {
  if (one_for_each_name()) return;
  std::unordered_map<std::string, std::pair<std::int64_t, std::int64_t>> known;
  for (auto const& columns : c.execute(book_.at("permit_units"), std::vector<value>{name}, deadline).rows)
    known.emplace(as_text(columns.at(1)), std::pair(as_int(columns.at(2)), as_int(columns.at(3))));
  for (auto& row : rows)
    if (auto const found = known.find(row.term.value); found != known.end())
      std::tie(row.holder.units, row.holder.limit) = found->second;
}

waiters_by_name term_rows::waiters(backend::connection& c, std::span<std::string const> names,
                                   boot_time_point deadline) const {
  return sessions(c, book_.at("lock_waiters"), names, deadline);
}

waiters_by_name term_rows::lockers(backend::connection& c, std::span<std::string const> names,
                                   boot_time_point deadline) const {
  return sessions(c, at("lock_locked_by"), names, deadline);
}

std::optional<term_row> term_rows::find(backend::connection& c, std::string const& name,
                                        boot_time_point deadline) const {
  auto const found = c.execute(at("lock_read"), std::vector<value>{name}, deadline);
  if (found.rows.empty()) return std::nullopt;
  auto row = decode_if_possible(found.rows.front());
  add_units(c, name, std::span(&row, 1), deadline);
  return row;
}

void term_rows::refuse_if_hidden(backend::connection& c, std::string const& name,
                                 boot_time_point deadline) const {
  auto const hides = [&](backend::statement const& asked) {
    return as_int(c.execute(asked, {}, deadline).rows.at(0).at(0)) != 0;
  };
  // Of permits also the name's anchor can be hidden.
  if (!hides(at("lock_hidden")) && (one_for_each_name() || !hides(book_.at("lock_hidden")))) return;
  throw error(
      errc::access_denied,
      fmt::format(
          "'{}' can't be taken, and whether it is held can't be told: row-level security keeps "
          "rows of rowlock's tables from this role. Give it a policy that hides nothing (FOR ALL USING "
          "(true)), or ALTER TABLE ... DISABLE ROW LEVEL SECURITY",
          name));
}

std::vector<term_id> term_rows::renew(backend::connection& c, std::span<name_and_term const> wanted,
                                      boot_time_point deadline, bool durable) const {
  if (!book_.returning()) return lock_and_renew(c, to_json(wanted), deadline);
  auto const done = c.execute(at("lock_renew", durable), std::vector<value>{to_json(wanted)}, deadline);
  std::vector<term_id> terms;
  terms.reserve(done.rows.size());
  for (auto const& columns : done.rows) terms.push_back({as_text(columns.at(0))});
  return terms;
}

// Where an UPDATE can neither skip locked rows nor return rows: one transaction locks the free ones, then
// renews.
std::vector<term_id> term_rows::lock_and_renew(backend::connection& c, std::string const& wanted,
                                               boot_time_point deadline) const {
  std::vector<term_id> terms;
  in_transaction(c, book_, deadline, [&] {
    std::vector<name_and_term> due;
    for (auto const& columns : c.execute(at("lock_renew_due"), std::vector<value>{wanted}, deadline).rows)
      due.push_back({as_text(columns.at(0)), {as_text(columns.at(1))}});
    if (due.empty()) return false;
    c.execute(at("lock_renew"), std::vector<value>{to_json(due)}, deadline);
    for (auto& d : due) terms.push_back(std::move(d.term));
    return true;
  });
  return terms;
}

std::vector<term_state> term_rows::check(backend::connection& c, std::span<name_and_term const> wanted,
                                         boot_time_point deadline) const {
  auto const found = c.execute(at("lock_check"), std::vector<value>{to_json(wanted)}, deadline);
  std::vector<term_state> states;
  states.reserve(found.rows.size());
  for (auto const& columns : found.rows)
    states.push_back({{as_text(columns.at(0))}, as_int(columns.at(1)) != 0, as_int(columns.at(2)) != 0});
  return states;
}

std::optional<term_state> term_rows::check(backend::connection& c, name_and_term const& which,
                                           boot_time_point deadline) const {
  auto found = check(c, std::span(&which, 1), deadline);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

bool term_rows::is_locked(backend::connection& c, name_and_term const& which,
                          boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value};
  if (!c.execute(at("lock_idle"), parameters, deadline).rows.empty()) return false;
  return check(c, which, deadline).has_value();
}

std::string term_rows::who_locks(backend::connection& c, std::string const& name,
                                 boot_time_point deadline) const try {
  constexpr std::size_t most_told = 3;
  auto sessions = lockers(c, std::span(&name, 1), deadline)[name];
  sessions.resize(std::min(sessions.size(), most_told));
  std::string all;
  for (auto const& s : sessions)
    all += fmt::format("{}session {} of the server ({}user {})", all.empty() ? "" : ", ", s.session,
                       s.application.empty() ? "" : base::printable(s.application) + ", ",
                       base::printable(s.user));
  return all;
} catch (error const&) {
  if (!c.usable()) throw;
  return {};  // some servers do not allow the question
}

bool term_rows::extend(backend::connection& c, name_and_term const& which, std::chrono::milliseconds duration,
                       boot_time_point deadline) const {
  auto const done =
      c.execute(at("lock_extend"),
                std::vector<value>{which.name, which.term.value, std::int64_t{duration.count()}}, deadline);
  return done.affected > 0;
}

bool term_rows::set_note(backend::connection& c, name_and_term const& which, std::string const& note,
                         boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value, note};
  return c.execute(at("lock_set_note"), parameters, deadline).affected > 0;
}

bool term_rows::keep_record(backend::connection& c, name_and_term const& which,
                            boot_time_point deadline) const {
  auto const done =
      c.execute(book_.at("once_keep"), std::vector<value>{which.name, which.term.value}, deadline);
  return done.affected > 0 || !done.rows.empty();
}

bool term_rows::release_at_least(backend::connection& c, name_and_term const& which,
                                 std::chrono::milliseconds at_least, boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value, std::int64_t{at_least.count()},
                                      base::random_id()};
  return c.execute(book_.at("lock_release_at_least"), parameters, deadline).affected > 0;
}

bool term_rows::release_until(backend::connection& c, name_and_term const& which,
                              std::chrono::milliseconds at_least, boot_time_point deadline) const {
  std::vector<value> const parameters{which.name, which.term.value, std::int64_t{at_least.count()},
                                      base::random_id()};
  return c.execute(book_.at("unique_release_at_least"), parameters, deadline).affected > 0;
}

bool term_rows::revoke(backend::connection& c, name_and_term const& which, revoke_mode mode,
                       boot_time_point deadline) const {
  bool const now = mode == revoke_mode::now;
  char const* const statement = one_for_each_name() ? (now ? "quorum_revoke_now" : "lock_revoke")
                                                    : (now ? "permit_revoke_now" : "permit_revoke");
  std::vector<value> const parameters{which.name,
                                      which.term.empty() ? value(nullptr) : value(which.term.value)};
  return c.execute(book_.at(statement), parameters, deadline).affected > 0;
}

bool replace_term(backend::connection& c, backend::statement_book const& book, name_and_term const& which,
                  term_id const& by, std::chrono::milliseconds lasts, boot_time_point deadline) {
  std::vector<value> const parameters{which.name, by.value, std::int64_t{lasts.count()}, which.term.value};
  return c.execute(book.at("lock_revoke_now"), parameters, deadline).affected > 0;
}

}  // namespace rowlock::strategies

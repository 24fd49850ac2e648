#include "strategy/reaping.hpp"

#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "strategy/counts.hpp"
#include "strategy/permits.hpp"
#include "strategy/quarantine.hpp"
#include "strategy/transaction.hpp"

namespace rowlock::strategies {
namespace {

using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

void count(reap_counts& all, std::string const& strategy) {
  auto const how = strategy_from_string(strategy);
  if (how == strategy::unique_insert) ++all.unique_insert;
  if (how == strategy::lease || how == strategy::once || how == strategy::quorum) ++all.lease;
  if (how == strategy::row_lock) ++all.row_lock;
  if (how && traits(*how).counted) ++all.permit_names;
}

char const* named(reaped_table t, char const* of_locks, char const* of_tokens) {
  return t == reaped_table::locks ? of_locks : of_tokens;
}

}  // namespace

page_look reaping::look(backend::connection& c, page const& p, boot_time_point deadline) const {
  auto const& statement = book_.at(named(p.table, "reap_locks_look", "reap_tokens_look"));
  std::vector<value> const parameters{p.after, std::int64_t{p.size}, std::int64_t{idle_.count()}};
  auto const found = c.execute(statement, parameters, deadline);
  auto const& columns = found.rows.at(0);
  auto const of_page = [&p](value const& v) { return as_count(v, p.size); };
  page_look seen;
  seen.examined = of_page(columns.at(0));
  if (!is_null(columns.at(1))) seen.last = as_text(columns.at(1));
  if (p.table == reaped_table::tokens) {
    seen.due.tokens = of_page(columns.at(2));
    seen.highest_token = as_int(columns.at(3));
    return seen;
  }
  seen.due = {of_page(columns.at(2)), of_page(columns.at(3)), of_page(columns.at(4)), 0};
  seen.due.permit_names = of_page(columns.at(9));
  seen.left_observed = of_page(columns.at(5));
  seen.left_ahead = of_page(columns.at(6));
  seen.highest_token = as_int(columns.at(7));
  seen.kept = of_page(columns.at(8));
  return seen;
}

void reaping::raise_floor(backend::connection& c, std::int64_t token, boot_time_point deadline) const {
  c.execute(book_.at("reap_raise_floor"), std::vector<value>{token}, deadline);
}

reap_counts reaping::remove(backend::connection& c, page const& p, page_look const& seen,
                            boot_time_point deadline) const {
  if (!book_.returning()) return lock_and_remove(c, p, seen, deadline);
  auto const& statement = book_.at(named(p.table, "reap_locks_delete", "reap_tokens_delete"));
  std::vector<value> const parameters{p.after, seen.last, std::int64_t{p.size}, std::int64_t{idle_.count()}};
  auto const done = c.execute(statement, parameters, deadline);
  reap_counts gone;
  if (p.table == reaped_table::tokens)
    gone.tokens = static_cast<std::int64_t>(done.rows.size());
  else
    for (auto const& columns : done.rows) count(gone, as_text(columns.at(0)));
  return gone;
}

// Where a DELETE can neither skip locked rows nor return rows: one transaction locks the free ones, then
// deletes.
reap_counts reaping::lock_and_remove(backend::connection& c, page const& p, page_look const& seen,
                                     boot_time_point deadline) const {
  reap_counts gone;
  in_transaction(c, book_, deadline, [&] {
    std::vector<value> const range{p.after, seen.last, std::int64_t{p.size}, std::int64_t{idle_.count()}};
    auto const due =
        c.execute(book_.at(named(p.table, "reap_locks_due", "reap_tokens_due")), range, deadline);
    if (due.rows.empty()) return false;
    std::vector<std::string> names;
    for (auto const& columns : due.rows) {
      names.push_back(as_text(columns.at(0)));
      if (p.table == reaped_table::tokens)
        ++gone.tokens;
      else
        count(gone, as_text(columns.at(1)));
    }
    c.execute(book_.at(named(p.table, "reap_locks_delete", "reap_tokens_delete")),
              std::vector<value>{base::json_list(names), std::int64_t{idle_.count()}}, deadline);
    return true;
  });
  return gone;
}

std::vector<kept_term> reaping::kept(backend::connection& c, page const& p, page_look const& seen,
                                     boot_time_point deadline) const {
  std::vector<value> const range{p.after, seen.last, std::int64_t{p.size}};
  auto const found = c.execute(book_.at("reap_kept"), range, deadline);
  std::vector<kept_term> out;
  for (auto const& columns : found.rows) {
    auto const how = strategy_from_string(as_text(columns.at(1)));
    if (how != strategy::lease && how != strategy::unique_insert && how != strategy::once) continue;
    auto const ttl = as_int(columns.at(4));
    if (ttl <= 0 || ttl > backend::farthest.count()) continue;  // made by hand
    auto const name = as_text(columns.at(0));
    // The rule for takers also decides whether the reaper may watch a term.
    auto const row = term_rows(book_).read(c, name, deadline);
    if (!row || !row->must_be_silent_for()) continue;
    kept_term one{name, *how, {as_text(columns.at(2))}, as_int(columns.at(3)), std::chrono::milliseconds(ttl),
                  0,    {}};
    auto const incarnation = incarnation_of(c, book_, {name, one.term}, one.renewals, deadline);
    if (!incarnation) continue;
    one.incarnation = *incarnation;
    one.seen = boot_clock::now();
    out.push_back(std::move(one));
  }
  return out;
}

bool reaping::end(backend::connection& c, kept_term const& k, boot_time_point deadline) const {
  auto const& statement =
      book_.at(k.strategy == strategy::unique_insert ? "reap_end_insert" : "reap_end_lease");
  std::vector<value> what{k.name, k.term.value, k.renewals};
  what.emplace_back(k.incarnation);
  return c.execute(statement, what, deadline).affected > 0;
}

permits_look reaping::look_at_permits(backend::connection& c, name_and_term const& after, int size,
                                      boot_time_point deadline) const {
  std::vector<value> const range{after.name, after.term.value, std::int64_t{size},
                                 std::int64_t{idle_.count()}};
  permits_look seen;
  for (auto const& columns : c.execute(book_.at("reap_permits_look"), range, deadline).rows) {
    ++seen.examined;
    seen.last = {as_text(columns.at(0)), {as_text(columns.at(1))}};
    if (as_int(columns.at(2)) != 0) seen.due.push_back(seen.last);
  }
  return seen;
}

std::int64_t reaping::remove_permits(backend::connection& c, std::span<name_and_term const> due,
                                     boot_time_point deadline) const {
  return permits::purge(c, book_, due, deadline);
}

std::int64_t reaping::floor(backend::connection& c, boot_time_point deadline) const {
  auto const found = c.execute(book_.at("reap_floor"), {}, deadline);
  return found.rows.empty() ? 0 : as_int(found.rows[0].at(0));
}

void reaping::record(backend::connection& c, std::chrono::milliseconds duration, owner_id const& who,
                     std::string const& report, boot_time_point deadline) const {
  c.execute(book_.at("reap_record"),
            std::vector<value>{std::int64_t{duration.count()}, who.host, who.pid, report}, deadline);
}

std::optional<last_reap> reaping::last(backend::connection& c, boot_time_point deadline) const {
  auto const found = c.execute(book_.at("reap_last"), {}, deadline);
  if (found.rows.empty() || is_null(found.rows[0].at(0))) return std::nullopt;
  auto const& columns = found.rows[0];
  return last_reap{backend::as_time(columns.at(0)), backend::as_time(columns.at(1)), as_text(columns.at(2)),
                   as_int(columns.at(3)), as_text(columns.at(4))};
}

}  // namespace rowlock::strategies

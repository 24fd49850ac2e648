#include "migrate/steps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/event.hpp"
#include "base/hand_on.hpp"
#include "migrate/routines.hpp"

namespace rowlock::migrate {
namespace {

constexpr std::size_t most_names = 3;

std::string joined(std::vector<std::string> const& parts) {
  auto const shown = std::min(parts.size(), most_names);
  auto text =
      fmt::format("{}", fmt::join(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == parts.size() ? text : fmt::format("{} and {} more", text, parts.size() - shown);
}

std::string quoted(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return fmt::format("'{}'", name);
}

std::vector<std::string> held_names(session& s) {
  std::vector<std::string> names;
  for (auto const& row : s.run("migrate_held").rows) names.push_back(quoted(backend::as_text(row.at(0))));
  return names;
}

void refuse_held(std::vector<std::string> names) {
  if (names.empty()) return;
  bool const more = names.size() > most_names;
  if (more) names.resize(most_names);
  throw refusal(
      errc::row_locked,
      fmt::format("locks are held: {}{}; wait until they are given back (`rowlock list` shows them, `rowlock "
                  "release --force NAME` asks for one), or go down all the same with --force",
                  fmt::join(names, ", "), more ? " and more" : ""));
}

// C6: only the tables record which tokens were drawn and admitted. Without them, later tokens would begin at
// the clock alone, and a sleeping holder that lost its lock would be admitted.
void refuse_to_forget_tokens(session& s) {
  auto const ask = [&](char const* what) { return backend::as_int(s.run(what).rows.at(0).at(0)); };
  if (auto const drawn = ask("migrate_highest_token"); drawn != 0)
    throw refusal(
        errc::invalid_argument,
        fmt::format(
            "version 0 forgets which fencing tokens were drawn, up to {}: if the tables are made again while "
            "the database's clock is behind that, tokens fall, and whoever compares them refuses the new "
            "owner or lets the old one in; stay at 1, or forget them with --forget-tokens",
            drawn));
  if (auto const admitted = ask("migrate_highest_admitted"); admitted != 0)
    throw refusal(
        errc::invalid_argument,
        fmt::format(
            "version 0 forgets which fencing tokens were admitted here (transaction::admit(), "
            "rowlock_admit), up to {}: whoever has lost a lock of a quorum, and does not know it yet, "
            "would be let in again; stay at 1, or forget them with --forget-tokens",
            admitted));
}

void demand_version(session& s, int version, std::string_view after) {
  auto const state = inspect(s);
  if (state.version == version && state.differences.empty() && !state.interrupted) return;
  throw refusal(errc::failed,
                fmt::format("migration {} left version {} instead of {}{}{}{}", after, state.version, version,
                            state.differences.empty() ? "" : ": ", joined(state.differences),
                            s.dialect().transactional_ddl ? "; nothing was changed" : ""));
}

void make_schema_if_missing(session& s) {
  auto const& schema = s.tables().schema;
  if (schema.empty()) return;
  // CREATE SCHEMA IF NOT EXISTS needs the right to create one even if it exists, so this asks first.
  if (backend::as_int(s.run("migrate_schema_there", {schema}).rows.at(0).at(0)) != 0) return;
  s.script(fmt::format("CREATE SCHEMA {0}{1}{0}", s.tables().quote, schema));
  s.report(fmt::format(
      "made the schema {0}, which was not there; if its name is misspelt: DROP SCHEMA {0} CASCADE", schema));
}

void apply(session& s, int version) {
  auto const& m = migration_of(s.dialect(), version);
  if (version == 1) make_schema_if_missing(s);
  s.script(s.tables().render(m.up));
  record(s, version);
  demand_version(s, version, fmt::format("{} {}", version, m.name));
}

// Where DDL ends transactions, the text begins with LOCK TABLES, for other tools, too. @return the end of
// that statement; 0: there is none
std::size_t end_of_lock(std::string const& text) {
  constexpr std::string_view lock = "LOCK TABLES ";
  auto const begin = text.starts_with(lock) ? 0 : text.find("\n" + std::string(lock));
  return begin == text.npos ? 0 : text.find(';', begin) + 1;
}

// No process takes a lock between the look at held locks and the end of the tables.
void undo(session& s, int version, down_consent const& consent) {
  auto const& m = migration_of(s.dialect(), version);
  auto const text = s.tables().render(m.down);
  auto const locked = s.dialect().transactional_ddl ? 0 : end_of_lock(text);
  s.run("migrate_exclude");
  if (locked > 0) s.script(text.substr(0, locked));
  auto const held = held_names(s);
  if (!consent.held_locks) refuse_held(held);
  if (version == 1 && !consent.tokens) refuse_to_forget_tokens(s);
  s.run("migrate_forget", {std::int64_t{version}});
  s.script(text.substr(locked));
  // No process may make the tables again while a thread can still use a term that was in them. [C62]
  if (!held.empty() && version == 1) base::wait_for(base::event(), boot_clock::now() + base::closed_for);
  demand_version(s, version - 1, fmt::format("{} {} (down)", version, m.name));
}

// Whether the tables are newer than this program, and serve it. @throws refusal if they are newer and do not
bool newer_but_serving(session& s, schema_state const& state) {
  auto const latest = latest_version(s.dialect());
  if (state.version <= latest) return false;
  if (state.oldest_reader <= latest) return true;
  throw refusal(
      errc::schema_new,
      fmt::format("the tables are at version {} and serve programs made for version {} or later; this one "
                  "was made for {}: use a newer rowlock",
                  state.version, state.oldest_reader, latest));
}

void demand_known(session& s, schema_state const& state) {
  auto const latest = latest_version(s.dialect());
  if (state.version <= latest) return;
  throw refusal(
      errc::schema_new,
      fmt::format("the tables are at version {}, and this program only knows the way down from {}: use the "
                  "program that made them",
                  state.version, latest));
}

bool up_is_done(session& s, schema_state const& state, int goal) {
  demand_sound(state);
  if (newer_but_serving(s, state)) return true;
  auto const records = compare_records(s.dialect(), state);
  return state.version >= goal && records.missing.empty() && records.stale.empty() &&
         state.missing_routines.empty();
}

void adopt(session& s, schema_state const& state, std::vector<std::string>& told) {
  auto const records = compare_records(s.dialect(), state);
  if (!records.stale.empty()) s.run("migrate_forget", {std::int64_t{records.stale.front()}});
  for (int const version : records.missing) {
    record(s, version);
    told.push_back(fmt::format("adopted {} {}, applied by another tool, or by a run that was interrupted",
                               version, migration_of(s.dialect(), version).name));
  }
}

void tell_first_look(session& s, schema_state const& state, int goal) {
  if (newer_but_serving(s, state))
    return s.report(
        fmt::format("the tables are at version {}, newer than this program's {}, and still serve it: nothing "
                    "to do",
                    state.version, latest_version(s.dialect())));
  for (int const version : compare_records(s.dialect(), state).different)
    s.report(fmt::format(
        "warning: version {} is recorded with another text than this program has: see `rowlock migrate "
        "validate`",
        version));
  if (state.version > goal) s.report(fmt::format("the tables are at version {} already", state.version));
}

}  // namespace

void demand_sound(schema_state const& state) {
  if (state.differences.empty()) return;
  throw refusal(
      errc::schema_missing,
      fmt::format("the tables are not what {} should have: {}; correct them by hand (`rowlock migrate sql` "
                  "prints what they should be), or choose another table prefix or schema",
                  state.version > 0 ? fmt::format("version {}", state.version) : "rowlock",
                  joined(state.differences)));
}

record_mending compare_records(backend::dialect const& d, schema_state const& state) {
  record_mending out;
  for (auto const& m : d.migrations) {
    if (m.version > state.version) break;
    auto const* r = state.record_of(m.version);
    if (r == nullptr)
      out.missing.push_back(m.version);
    else if (r->checksum != checksum_of(m) || r->name != m.name)
      out.different.push_back(m.version);
  }
  for (auto const& r : state.records)
    if (r.version > state.version) out.stale.push_back(r.version);
  return out;
}

void record(session& s, int version) {
  auto const& m = migration_of(s.dialect(), version);
  s.run("migrate_record", {std::int64_t{version}, std::string(m.name), checksum_of(m)});
}

std::vector<int> go_up(session& s, int goal) {
  std::vector<int> applied;
  std::optional<int> doing;
  std::vector<std::string> told;
  auto const line = [&](int version) {
    return fmt::format("applied {} {}", version, migration_of(s.dialect(), version).name);
  };
  auto const step = [&](bool after_doubt) {
    demand_no_strangers(s);
    auto const state = inspect(s);
    told.clear();
    if (after_doubt && doing && state.version >= *doing) {
      applied.push_back(*doing);
      s.report(line(*doing));
    }
    doing.reset();
    if (up_is_done(s, state, goal)) return;
    adopt(s, state, told);
    if (!state.missing_routines.empty()) {  // alone, because a migration can need them
      make_routines(s, state.version, state.missing_routines);
      for (auto const& name : state.missing_routines)
        told.push_back(
            fmt::format("made {} again, which was missing; rights to execute it are to be granted again",
                        display_name(s, name)));
      return;
    }
    if (state.version >= goal) return;
    apply(s, state.version + 1);
    doing = state.version + 1;
  };
  for (bool first = true;; first = false) {
    schema_state state;
    s.read([&] {
      demand_no_strangers(s);
      state = inspect(s);
    });
    // The step checks a difference again, alone: another migrator might be at work.
    bool const done = state.differences.empty() && up_is_done(s, state, goal);
    if (first) tell_first_look(s, state, goal);
    if (done) return applied;
    s.write(step);
    for (auto const& adopted : told) s.report(adopted);
    if (!doing) continue;
    applied.push_back(*doing);
    s.report(line(*doing));
    doing.reset();
  }
}

std::vector<int> go_down(session& s, int goal, down_consent consent) {
  std::vector<int> undone;
  std::optional<int> doing;
  auto const step = [&](bool after_doubt) {
    demand_no_strangers(s);
    auto const state = inspect(s);
    if (after_doubt && doing && state.version < *doing) undone.push_back(*doing);
    doing.reset();
    demand_sound(state);
    demand_known(s, state);
    // Up first: then the state to undo is known.
    if (state.interrupted) return apply(s, state.version + 1);
    if (state.version <= goal) return;
    // Also before the first step: tables half-way down would serve no program.
    if (goal == 0 && !consent.tokens && !consent.held_locks) refuse_held(held_names(s));
    if (goal == 0 && !consent.tokens) refuse_to_forget_tokens(s);
    make_routines(s, state.version, state.missing_routines);  // else the down text has nothing to drop
    undo(s, state.version, consent);
    doing = state.version;
  };
  for (;;) {
    schema_state state;
    s.read([&] {
      demand_no_strangers(s);
      state = inspect(s);
    });
    if (state.version <= goal && state.differences.empty() && !state.interrupted) return undone;
    s.write(step);
    if (!doing) continue;
    undone.push_back(*doing);
    s.report(fmt::format("undone {} {}", *doing, migration_of(s.dialect(), *doing).name));
    doing.reset();
  }
}

}  // namespace rowlock::migrate

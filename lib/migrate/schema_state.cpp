#include "migrate/schema_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "migrate/routines.hpp"

namespace rowlock::migrate {
namespace {

using backend::as_int;
using backend::as_text;

using columns = std::map<std::string, std::string>;  // name: definition
using tables = std::map<std::string, columns>;       // "locks": ...; absent if there is no such table

std::vector<std::string> table_kinds_of(session const& s) {
  std::vector<std::string> all{"meta",   "locks",   "migrations", "tokens",
                               "reaper", "permits", "quorum",     "admitted"};
  auto const& pulses = s.dialect().pulse_tables;
  all.insert(all.end(), pulses.begin(), pulses.end());
  return all;
}

columns actual_columns(session& s, std::string const& what) {
  columns found;
  for (auto const& row : s.run("migrate_columns", {s.tables().table(what)}).rows)
    found[as_text(row.at(0))] = as_text(row.at(1));
  return found;
}

tables actual_tables(session& s) {
  tables found;
  for (auto const& what : table_kinds_of(s))
    if (auto there = actual_columns(s, what); !there.empty()) found[what] = std::move(there);
  return found;
}

tables expected_tables(session& s, int version) {
  tables expected;
  for (auto const& row : s.run("migrate_columns_expected", {std::int64_t{version}}).rows)
    expected[as_text(row.at(0))][as_text(row.at(1))] = as_text(row.at(2));
  return expected;
}

void compare_columns(std::string const& table, columns const& expected, columns const& found, int version,
                     std::vector<std::string>& out) {
  for (auto const& [name, definition] : expected) {
    auto const there = found.find(name);
    if (there == found.end())
      out.push_back(fmt::format("column {}.{} ({}) is missing", table, name, definition));
    else if (there->second != definition)
      out.push_back(
          fmt::format("column {}.{} is '{}' and should be '{}'", table, name, there->second, definition));
  }
  for (auto const& [name, definition] : found)
    if (!expected.contains(name))
      out.push_back(
          fmt::format("column {}.{} ({}) is not part of version {}", table, name, definition, version));
}

std::vector<std::string> compare(session& s, tables const& found, int version) {
  std::vector<std::string> out;
  auto const expected = expected_tables(s, version);
  for (auto const& what : table_kinds_of(s)) {
    auto const should = expected.find(what);
    auto const is = found.find(what);
    auto const name = display_name(s, what);
    if (should != expected.end() && is == found.end())
      out.push_back(fmt::format("table {} is missing", name));
    else if (should == expected.end() && is != found.end())
      out.push_back(fmt::format("table {} is not part of version {}", name, version));
    else if (should != expected.end())
      compare_columns(name, should->second, is->second, version, out);
  }
  return out;
}

// The columns of rowlock_meta in every version, so that any program can read any version.
bool readable_meta(columns const& meta) {
  return meta.contains("id") && meta.contains("database_id") && meta.contains("schema_version") &&
         meta.contains("oldest_reader");
}

// A larger number is no version: migrations are counted one by one.
constexpr std::int64_t highest_version = 9'999;

int version_of(backend::value const& v) {
  return static_cast<int>(std::clamp<std::int64_t>(as_int(v), -1, highest_version + 1));
}

// rowlock_meta's row, as migrate_version gives it. If there is none, or its version is out of range, `state`
// has the complaint.
std::optional<backend::row> read_meta(session& s, columns const& columns_of_meta, schema_state& state) {
  auto const meta = display_name(s, "meta");
  if (!readable_meta(columns_of_meta)) {
    state.differences.push_back(fmt::format(
        "table {} lacks one of the columns id, database_id, schema_version, oldest_reader", meta));
    return std::nullopt;
  }
  auto rows = s.run("migrate_version").rows;
  if (rows.empty()) {
    state.differences.push_back(fmt::format("table {} has no row", meta));
    return std::nullopt;
  }
  auto const version = as_int(rows[0].at(0));
  state.oldest_reader = version_of(rows[0].at(1));
  if (version < 1 || version > highest_version) {
    state.differences.push_back(fmt::format("{}.schema_version is {}", meta, version));
    return std::nullopt;
  }
  state.version = static_cast<int>(version);
  return std::move(rows[0]);
}

void read_records(session& s, tables const& found, schema_state& state) {
  auto const there = found.find("migrations");
  if (there == found.end()) return;
  for (auto const* needed : {"version", "name", "checksum", "applied_at"})
    if (!there->second.contains(needed)) return;
  for (auto const& row : s.run("migrate_records").rows)
    state.records.push_back(
        {version_of(row.at(0)), as_text(row.at(1)), as_text(row.at(2)), as_text(row.at(3))});
}

// Recognizes an interrupted migration: all tables of this version are there, as in this version or the next,
// and all other tables are as in the next.
void recognize_interruption(session& s, tables const& found, schema_state& state) {
  auto const next = state.version + 1;
  if (s.dialect().transactional_ddl || state.differences.empty() || next > latest_version(s.dialect()))
    return;
  auto const present = expected_tables(s, state.version);
  auto const expected = expected_tables(s, next);
  for (auto const& [what, should] : present)
    if (!found.contains(what)) return;
  for (auto const& [what, is] : found) {
    auto const was = present.find(what);
    auto const will_be = expected.find(what);
    bool const known =
        (was != present.end() && was->second == is) || (will_be != expected.end() && will_be->second == is);
    if (!known) return;
  }
  state.interrupted = true;
  state.differences.clear();
}

// Where the catalog ignores the transaction's snapshot, another migration can come between two looks.
[[noreturn]] void throw_changed() {
  throw error(errc::conflict, "the tables were migrated while they were looked at");
}

bool may_read(session& s, std::string const& what) {
  try {
    s.script(fmt::format("SELECT * FROM {} LIMIT 0", s.tables().table(what)));
    return true;
  } catch (error const& e) {
    if (e.reason() == errc::schema_missing) return true;  // no such table
    if (e.reason() == errc::access_denied) return false;
    throw;
  }
}

// A table that seems absent might be hidden: without a right on it these servers do not tell.
void demand_sight(session& s) {
  if (!s.dialect().catalog_hides) return;
  std::string hidden;
  for (auto const& what : table_kinds_of(s))
    if (!may_read(s, what)) hidden += (hidden.empty() ? "" : ", ") + display_name(s, what);
  if (hidden.empty()) return;
  throw refusal(
      errc::access_denied,
      fmt::format("rights are missing: this user may not SELECT from {}, and so can't see what is there; "
                  "`rowlock migrate status` and `validate` need SELECT on all of rowlock's tables (the roles "
                  "that only lock or reap have less), `up` and `down` also CREATE, ALTER, DROP, LOCK "
                  "TABLES, CREATE ROUTINE, ALTER ROUTINE, INSERT, UPDATE and DELETE in the database",
                  hidden));
}

std::string qualified(session const& s, backend::value const& name) {
  auto const& schema = s.tables().schema;
  return schema.empty() ? as_text(name) : fmt::format("{}.{}", schema, as_text(name));
}

std::vector<std::string> views(session& s) {
  std::vector<std::string> out;
  for (auto const& row : s.run("meta_views", {s.tables().schema, s.tables().prefix}).rows)
    out.push_back(qualified(s, row.at(0)) + " is not an ordinary table");
  return out;
}

void demand_tables(session& s) {
  auto const bad = views(s);
  if (bad.empty()) return;
  throw refusal(errc::schema_missing,
                fmt::format("{}, and so is not read, because that may run functions with the reader's "
                            "rights: drop it, or name another schema with --schema",
                            bad.front()));
}

schema_state look(session& s) {
  schema_state state;
  auto const meta = actual_columns(s, "meta");
  if (meta.empty()) {
    demand_sight(s);
    auto const others = actual_tables(s);
    if (others.contains("meta")) throw_changed();
    if (!others.empty())
      state.differences.push_back(fmt::format("table {} is missing, but {} is there", display_name(s, "meta"),
                                              display_name(s, others.begin()->first)));
    recognize_interruption(s, others, state);
    return state;
  }
  if (!readable_meta(meta)) demand_sight(s);
  auto const before = read_meta(s, meta, state);
  auto const found = actual_tables(s);
  if (!before) {
    recognize_interruption(s, found, state);
    return state;
  }
  if (state.version <= latest_version(s.dialect())) state.differences = compare(s, found, state.version);
  if (!state.differences.empty() || !found.contains("migrations")) demand_sight(s);
  recognize_interruption(s, found, state);
  read_records(s, found, state);
  if (state.differences.empty() && !state.interrupted && state.version <= latest_version(s.dialect()))
    state.missing_routines = missing_routines(s, state.version);
  auto const after = s.run("migrate_version").rows;
  if (after.empty() || after[0] != *before) throw_changed();
  return state;
}

}  // namespace

std::vector<std::string> strangers(session& s, bool to_write) {
  auto out = views(s);
  auto const& t = s.tables();
  for (auto const& row :
       s.run("migrate_strangers", {t.schema, t.prefix, std::int64_t{to_write ? 1 : 0}}).rows)
    out.push_back(fmt::format("{} {}", qualified(s, row.at(0)), as_text(row.at(1))));
  return out;
}

void demand_no_strangers(session& s) {
  auto const all = strangers(s, true);
  if (all.empty()) return;
  throw refusal(
      errc::access_denied,
      fmt::format(
          "{}: what another role has put there would run with the rights of whoever migrates or takes "
          "locks: drop it, or name another schema with --schema; or, if it is meant to be there, "
          "migrate as that role",
          fmt::join(all, "; ")));
}

recorded_version const* schema_state::record_of(int v) const {
  auto const found =
      std::find_if(records.begin(), records.end(), [&](auto const& r) { return r.version == v; });
  return found == records.end() ? nullptr : &*found;
}

schema_state inspect(session& s) {
  demand_tables(s);
  auto state = look(s);
  if (state.differences.empty() && state.missing_routines.empty()) return state;
  // Each statement can see another moment of a migration, and where DDL commits, a routine that is made again
  // is gone for a moment. With other migrators kept out, look() sees one state.
  s.enter();
  return look(s);
}

std::string display_name(session const& s, std::string_view what) {
  auto const& schema = s.named_schema();
  return schema.empty() ? fmt::format("{}{}", s.tables().prefix, what)
                        : fmt::format("{}.{}{}", schema, s.tables().prefix, what);
}

int latest_version(backend::dialect const& d) noexcept {
  return d.migrations.empty() ? 0 : d.migrations.back().version;
}

backend::migration_text const& migration_of(backend::dialect const& d, int version) {
  for (auto const& m : d.migrations)
    if (m.version == version) return m;
  throw error(errc::failed, fmt::format("no migration {} is built in for {}", version, d.name));
}

std::string checksum_of(backend::migration_text const& m) {
  // FNV-1a, 64 bits: against accidents, not against attackers (who can write rowlock_migrations, too).
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char const c : m.up) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

}  // namespace rowlock::migrate

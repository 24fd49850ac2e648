#include <fmt/format.h>

#include <rowlock/migrator.hpp>

#include "base/text.hpp"
#include "migrate/steps.hpp"

namespace rowlock {
namespace {

using migrate::schema_state;
using migrate::session;

int checked(int version, int latest) {
  if (version >= 0 && version <= latest) return version;
  throw error(errc::invalid_argument,
              fmt::format("there is no version {}: they go from 0 to {}", version, latest));
}

// Replaces the back end's own hint, after the SQLSTATE: it is for users of the tables.
error with_hint(error const& e, std::string_view hint) {
  auto text = base::plain_message(e);
  auto const state = fmt::format("(SQLSTATE {})", e.sqlstate());
  if (auto const at = text.find(state); at != text.npos) text.resize(at + state.size());
  return error(e.reason(), fmt::format("{}; {}", text, hint), e.statement(), e.sqlstate(), e.native_code());
}

// Runs `f`, and adds a hint to errors that only an administrator can fix.
template <class F>
auto explained(backend::dialect const& dialect, F&& f) {
  try {
    return f();
  } catch (migrate::refusal const&) {
    throw;
  } catch (error const& e) {
    if (e.reason() == errc::read_only)
      throw with_hint(
          e, "migrate where writing is allowed: on the primary server, or with the right to write the file");
    if (auto const way_out = dialect.migrating.way_out(e); !way_out.empty()) throw with_hint(e, way_out);
    throw;
  }
}

schema_state read_state(session& s) {
  schema_state state;
  s.read([&] { state = migrate::inspect(s); });
  return state;
}

schema_state existing_state(session& s, schema_state state) {
  if (state.version == 0 && state.differences.empty() && !state.interrupted)
    throw migrate::refusal(errc::schema_missing, fmt::format("there is no table {}: run `rowlock migrate up`",
                                                             migrate::display_name(s, "meta")));
  return state;
}

migration_status status_of(backend::migration_text const& m, schema_state const& state) {
  migration_status out{m.version, std::string(m.name), m.version <= state.version,
                       false,     std::nullopt,        false};
  if (!out.applied) return out;
  if (auto const* r = state.record_of(m.version)) {
    out.applied_at = r->applied_at;
    out.checksum_differs = r->checksum != migrate::checksum_of(m);
  } else {
    out.adopted = true;
  }
  return out;
}

migration_status status_of_unknown(int version, schema_state const& state) {
  migration_status out{version, "unknown to this program", true, true, std::nullopt, false};
  if (auto const* r = state.record_of(version)) {
    out.name = r->name;
    out.applied_at = r->applied_at;
    out.adopted = false;
  }
  return out;
}

std::string complaint_about_version(int version, int oldest_reader, int latest) {
  if (version < latest)
    return fmt::format("the tables are at version {}, this program has {}: run `rowlock migrate up`", version,
                       latest);
  if (oldest_reader > latest)
    return fmt::format(
        "the tables are at version {} and no longer serve this program, which was made for {}: use a newer "
        "rowlock",
        version, latest);
  return fmt::format(
      "the tables are at version {}, unknown to this program, which was made for {}; they still serve it, "
      "and "
      "a newer rowlock can look at them",
      version, latest);
}

std::string one_step(backend::dialect const& dialect, backend::table_names const& names,
                     std::string_view direction, int version, std::string_view name, std::string_view text) {
  return fmt::format("-- {} {} {}\n{}", direction, version, name,
                     dialect.migrating.as_script(names.render(text)));
}

}  // namespace

migrator::migrator(connection_source source, migrator_options options)
    : source_(std::move(source)), options_(std::move(options)) {
  backend::table_names::of(source_.implementation()->sql(), options_.schema, options_.table_prefix);
}

int migrator::latest() const noexcept { return migrate::latest_version(source_.implementation()->sql()); }

std::vector<int> migrator::up(std::optional<int> target) {
  auto const goal = checked(target.value_or(latest()), latest());
  return explained(source_.implementation()->sql(), [&] {
    session s(*source_.implementation(), options_, true);
    return migrate::go_up(s, goal);
  });
}

std::vector<int> migrator::down(int target, bool force, bool forget_tokens) {
  checked(target, latest());
  return explained(source_.implementation()->sql(), [&] {
    session s(*source_.implementation(), options_);
    return migrate::go_down(s, target, {.held_locks = force, .tokens = forget_tokens});
  });
}

std::vector<migration_status> migrator::status() {
  session s(*source_.implementation(), options_);
  auto const state = read_state(s);
  std::vector<migration_status> out;
  for (auto const& m : s.dialect().migrations) out.push_back(status_of(m, state));
  for (int version = latest() + 1; version <= state.version; ++version)
    out.push_back(status_of_unknown(version, state));
  return out;
}

std::vector<std::string> migrator::validate() {
  session s(*source_.implementation(), options_);
  schema_state found;
  std::vector<std::string> lines;
  s.read([&] {
    found = migrate::inspect(s);
    lines = migrate::strangers(s, false);
  });
  auto const state = existing_state(s, found);
  lines.insert(lines.begin(), state.differences.begin(), state.differences.end());
  if (state.interrupted)
    lines.push_back(
        fmt::format("a migration from version {} to {}, or back, was interrupted, or is under way: "
                    "`rowlock migrate up` completes it",
                    state.version, state.version + 1));
  if (state.version == 0) return lines;
  if (state.version != latest())
    lines.push_back(complaint_about_version(state.version, state.oldest_reader, latest()));
  for (auto const& name : state.missing_routines)
    lines.push_back(fmt::format("{}, for SQL without C++, is missing: `rowlock migrate up` makes it again",
                                migrate::display_name(s, name)));
  auto const records = migrate::compare_records(s.dialect(), state);
  for (int const v : records.missing)
    lines.push_back(
        fmt::format("version {} is not recorded in {}, as if another tool had applied it: `rowlock migrate "
                    "up` or `repair` records it",
                    v, migrate::display_name(s, "migrations")));
  for (int const v : records.different)
    lines.push_back(
        fmt::format("version {} is recorded with another name or checksum than this program's text has: "
                    "`rowlock migrate repair` records the present one",
                    v));
  for (int const v : records.stale)
    lines.push_back(
        fmt::format("version {} is recorded, but the tables are at version {}: `rowlock migrate repair` "
                    "forgets it",
                    v, state.version));
  return lines;
}

std::vector<std::string> migrator::repair() {
  session s(*source_.implementation(), options_);
  std::vector<std::string> done;
  auto const mend = [&](bool) {
    done.clear();
    migrate::demand_no_strangers(s);
    auto const state = existing_state(s, migrate::inspect(s));
    migrate::demand_sound(state);
    auto const records = migrate::compare_records(s.dialect(), state);
    if (!records.stale.empty()) {
      s.run("migrate_forget", {std::int64_t{records.stale.front()}});
      for (int const v : records.stale)
        done.push_back(fmt::format("forgot version {}, which is not applied", v));
    }
    for (int const v : records.missing) done.push_back(fmt::format("recorded version {}", v));
    for (int const v : records.different)
      done.push_back(fmt::format("corrected name and checksum of version {}", v));
    for (auto const* versions : {&records.missing, &records.different})
      for (int const v : *versions) migrate::record(s, v);
  };
  explained(source_.implementation()->sql(), [&] { s.write(mend); });
  return done;
}

std::string migrator::sql(int from, int to) const {
  auto const& dialect = source_.implementation()->sql();
  checked(from, latest());
  checked(to, latest());
  auto const names = backend::table_names::of(dialect, options_.schema, options_.table_prefix);
  std::string out;
  if (from == 0 && to > 0 && !options_.schema.empty())
    out += fmt::format("CREATE SCHEMA IF NOT EXISTS {0}{1}{0};\n", names.quote, options_.schema);
  for (int v = from + 1; v <= to; ++v) {
    auto const& m = migrate::migration_of(dialect, v);
    out += one_step(dialect, names, "up", v, m.name, m.up);
  }
  for (int v = from; v > to; --v) {
    auto const& m = migrate::migration_of(dialect, v);
    out += one_step(dialect, names, "down", v, m.name, m.down);
  }
  return out;
}

}  // namespace rowlock

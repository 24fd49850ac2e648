#include "migrate/routines.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace rowlock::migrate {
namespace {

// Calls a routine only where the catalog can hide it, and only in a way that can't run: a foreign procedure
// would have our rights.
bool is_hidden(session& s, std::string const& name) {
  auto const& its = s.dialect().migrating;
  if (its.call_in_vain == nullptr) return false;
  try {
    s.script(its.call_in_vain(s.tables().table(name)));
  } catch (error const& e) {
    return !its.no_routine(e);
  }
  return true;
}

/// The beginning of the statement that makes the routine; npos: not in this text.
std::size_t begin_of(std::string_view text, std::string const& name) {
  constexpr std::array<std::string_view, 3> verbs{"CREATE FUNCTION", "CREATE OR REPLACE FUNCTION",
                                                  "CREATE PROCEDURE"};
  for (auto const verb : verbs) {
    auto const at = text.rfind(fmt::format("{} rowlock_{}(", verb, name));
    if (at == text.npos) continue;
    bool const by_itself = at == 0 || text[at - 1] == '\n';
    return by_itself ? at : text.rfind("\nDO $$", at) + 1;  // else in a DO block
  }
  return text.npos;
}

/// From the newest of the versions up to `version` that makes it.
std::string_view text_of(backend::dialect const& d, int version, std::string const& name) {
  std::string_view found;
  for (auto const& m : d.migrations) {
    if (m.version > version) break;
    auto const begin = begin_of(m.up, name);
    if (begin == std::string_view::npos) continue;
    auto const end = m.up.find(';', m.up.find("\nEND", begin));
    found = m.up.substr(begin, end + 1 - begin);
  }
  if (found.empty())
    throw error(errc::failed, fmt::format("no migration up to {} makes {} for {}", version, name, d.name));
  return found;
}

}  // namespace

std::vector<std::string> missing_routines(session& s, int version) {
  std::vector<std::string> missing;
  auto const& t = s.tables();
  auto const found = s.run("migrate_routines_missing", {t.schema, t.prefix, std::int64_t{version}});
  for (auto const& row : found.rows)
    if (auto const& name = backend::as_text(row.at(0)); !is_hidden(s, name)) missing.push_back(name);
  return missing;
}

void make_routines(session& s, int version, std::vector<std::string> const& names) {
  auto const& its = s.dialect().migrating;
  for (auto const& name : names) {
    s.script(s.tables().render(text_of(s.dialect(), version, name)));
    if (its.finish_routine != nullptr) s.script(its.finish_routine(s.tables().table(name)));
  }
}

}  // namespace rowlock::migrate

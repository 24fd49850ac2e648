#pragma once
// What cases of old snapshots have in common: the library's own statements as text, and the pages they look
// at. PostgreSQL only.

#include <algorithm>
#include <string>
#include <vector>

#include "contract/conditions.hpp"

namespace rowlock::test {

#define OFTEN_CASE(text) PAIRS_CASE(text, leases_of_postgresql)

/// The library's own statement, to be rendered.
inline std::string script_of(fixture& f, char const* statement, std::vector<std::string> const& parameters) {
  auto const& all = f.source.implementation()->sql().statements;
  auto const found =
      std::find_if(all.begin(), all.end(), [&](auto const& one) { return one.name == statement; });
  REQUIRE(found != all.end());
  std::string sql(found->text);
  for (auto i = parameters.size(); i-- > 0;)
    for (auto const mark = "$" + std::to_string(i + 1); sql.find(mark) != sql.npos;)
      sql.replace(sql.find(mark), mark.size(), parameters[i]);
  return sql;
}

/// That a statement looks at, in the session's transaction.
inline std::int64_t pages_of(fixture& f, backend::connection& session, char const* statement,
                             std::vector<std::string> const& parameters) {
  auto const sql =
      "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) " + f.tables().render(script_of(f, statement, parameters));
  for (auto const& row : session.execute({"explain", sql}, {}, statements::soon()).rows) {
    auto const line = backend::as_text(row.at(0));
    if (auto const at = line.find("shared hit="); at != line.npos) return std::stoll(line.substr(at + 11));
  }
  FAIL_CHECK("no pages");
  return 0;
}

/// Whether another program's INSERT makes "x" its own.
inline bool inserts(fixture& f) {
  try {
    f.sql(
        "INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) VALUES ('x', 'unique_insert', "
        "'i', 1, now() + interval '1 minute')");
  } catch (error const&) {
    return false;
  }
  return true;
}

}  // namespace rowlock::test

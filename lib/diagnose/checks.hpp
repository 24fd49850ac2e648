#pragma once
// The checks, a function each: nothing if it does not apply. Those in a namespace of a database's name know
// that database, and no driver.

#include <optional>

#include "diagnose/examination.hpp"

namespace rowlock::diagnose {

std::optional<opinion> schema(examination&);
std::optional<opinion> grants(examination&);
std::optional<opinion> clock(examination&);
std::optional<opinion> keepalive(examination&);

/// Whether this end of the wire is encrypted; `protocol`: empty if not. `remedy`: how to have it so.
opinion tls(backend::session_facts const&, std::string const& protocol, std::string const& remedy);

/// Tries a statement that would write, but meets nothing to write to. @return an error if the database takes
/// no writes, else nothing, also if something else is wrong
std::optional<opinion> refused_writes(examination&);

/// "statement_timeout = 5000, lock_timeout = 1": those of `names` that are on.
std::string list_on(settings const&, std::initializer_list<char const*> names);

namespace postgresql {
std::optional<opinion> writable(examination&);
std::optional<opinion> isolation(examination&);
std::optional<opinion> timeouts(examination&);
std::optional<opinion> row_security(examination&);
std::optional<opinion> durability(examination&);
std::optional<opinion> replicas(examination&);
std::optional<opinion> creators(examination&);
std::optional<opinion> pooler(examination&);
std::optional<opinion> tls(examination&);
std::optional<opinion> index(examination&);
}  // namespace postgresql

namespace mysql {
std::optional<opinion> writable(examination&);
std::optional<opinion> isolation(examination&);
std::optional<opinion> timeouts(examination&);
std::optional<opinion> durability(examination&);
std::optional<opinion> replicas(examination&);
std::optional<opinion> galera(examination&);
std::optional<opinion> tls(examination&);
std::optional<opinion> index(examination&);
}  // namespace mysql

namespace sqlite {
std::optional<opinion> writable(examination&);
std::optional<opinion> durability(examination&);
std::optional<opinion> index(examination&);
std::optional<opinion> file_system(examination&);

/// What locks of files are worth on a file system of that kind (statfs(2), f_type).
opinion judge_file_system(std::uint64_t kind, bool wal);
}  // namespace sqlite

}  // namespace rowlock::diagnose

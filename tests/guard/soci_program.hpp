#pragma once
// Apart from the others: SOCI's header for SQLite includes sqlite3.h inside a namespace.

#include <memory>
#include <string>

namespace rowlock::test {

class program;
std::unique_ptr<program> connect_by_soci(std::string const& url);

}  // namespace rowlock::test

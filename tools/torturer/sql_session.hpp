#pragma once
// SQL of our own: one text for all databases, by SOCI. Nothing includes this where there is no SOCI.

#include <soci/soci.h>

#include <memory>
#include <string>

namespace rowlock::torture {

bool is_sqlite(std::string const& db);
bool is_mysql(std::string const& db);

/// @param db as --db has it
/// @throws std::exception, without the password
std::unique_ptr<::soci::session> connect(std::string const& db);

}  // namespace rowlock::torture

#pragma once
// What lib/cmake/embed_sql.cmake made of the .sql files; each back end's target holds its own dialect's.

#include <span>

#include "backend/backend.hpp"

namespace rowlock::backend {

std::span<sql_text const> embedded_sqlite_statements() noexcept;
std::span<migration_text const> embedded_sqlite_migrations() noexcept;
std::span<sql_text const> embedded_postgresql_statements() noexcept;
std::span<migration_text const> embedded_postgresql_migrations() noexcept;
std::span<sql_text const> embedded_mysql_statements() noexcept;
std::span<migration_text const> embedded_mysql_migrations() noexcept;

}  // namespace rowlock::backend

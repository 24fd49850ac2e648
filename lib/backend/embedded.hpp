#pragma once
// The output of lib/cmake/embed_sql.cmake. Each back end's target holds its own dialect.

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

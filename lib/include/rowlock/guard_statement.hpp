#pragma once
// What held_lock::guard_statements() returns.

#include <rowlock/export.hpp>

#include <string>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// How a guard_statement's text has its values.
enum class placeholders {
  native,         ///< $1, $2, ... on PostgreSQL, otherwise ?
  question_mark,  ///< ?, as Qt and ODBC have it on each database
  none,  ///< in the text, in hexadecimal digits: the same under all settings of the session. No values.
};

/// One statement for a driver that rowlock does not know.
struct guard_statement {
  std::string text;                 ///< one statement, without a semicolon. Table names are qualified.
  std::vector<std::string> values;  ///< in the order of the placeholders. UTF-8
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

#pragma once
// Parameters and columns as libpq's texts.

#include <libpq-fe.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::postgresql {

/// Parameters as C strings, valid as long as this object and the values. `statement` is for messages.
class text_parameters {
 public:
  text_parameters(std::span<value const>, std::string const& statement);

  int count() const noexcept { return static_cast<int>(pointers_.size()); }
  char const* const* data() const noexcept { return pointers_.data(); }

 private:
  std::vector<std::string> numbers_;
  std::vector<char const*> pointers_;
};

/// The values as literals for the connection, under any settings. `statement` is for messages.
std::vector<std::string> literals(PGconn*, std::span<value const>, std::string const& statement);
/// Puts a literal in for each $n, for a text of several statements.
std::string with_literals(std::string_view sql, std::span<std::string const> literals);

/// Integers and booleans become integers, other types text. A null result becomes an empty one.
result decode(PGresult const*);

}  // namespace rowlock::backend::postgresql

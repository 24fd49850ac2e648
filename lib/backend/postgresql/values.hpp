#pragma once
// Parameters and columns as libpq wants and gives them: text.

#include <libpq-fe.h>

#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::postgresql {

/// Parameters as C strings, valid as long as this object. `statement` is for messages.
class text_parameters {
 public:
  text_parameters(std::span<value const>, std::string const& statement);

  int count() const noexcept { return static_cast<int>(pointers_.size()); }
  char const* const* data() const noexcept { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char const*> pointers_;
};

/// Integers and booleans become integers, everything else text. A null result is an empty one.
result decode(PGresult const*);

}  // namespace rowlock::backend::postgresql

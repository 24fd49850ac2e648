#pragma once

#include <memory>
#include <string>

#include "backend/database.hpp"

namespace rowlock::test {

/// A migrated database of the test's own, for programs that are told where it is and nothing else.
class place {
 public:
  explicit place(kind k) : kind_(k), database_(make_database(k)) {}

  void script(std::string const& sql);
  /// The number that a query finds.
  std::int64_t number(std::string const& sql);

  /// As rowlock and libpq have it: the tables are found without a word about a schema.
  std::string url() const;
  std::string file() const { return url().substr(std::string("sqlite:").size()); }

 private:
  std::unique_ptr<backend::connection> connect();

  kind kind_;
  std::unique_ptr<database> database_;
};

}  // namespace rowlock::test

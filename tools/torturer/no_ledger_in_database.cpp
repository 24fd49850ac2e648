#include <stdexcept>

#include "ledger_in_database.hpp"

namespace rowlock::torture {

std::unique_ptr<ledger> make_ledger_in_database(options const&) {
  throw std::runtime_error(
      "this rowlock-torture was built without SOCI, by which set and guarded_set come to the database");
}

}  // namespace rowlock::torture

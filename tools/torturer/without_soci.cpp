#include <stdexcept>

#include "by_hand.hpp"
#include "ledger_in_database.hpp"

namespace rowlock::torture {

bool has_soci() noexcept { return false; }

bool can_be_reached_by_sql(std::string const&) { return false; }

std::unique_ptr<ledger> make_ledger_in_database(options const&) {
  throw std::runtime_error(
      "this rowlock-torture was built without SOCI, by which some workloads come to the database");
}

void end_sessions(std::string const&, std::set<int> const&, std::mt19937&) {
  throw std::runtime_error("this rowlock-torture was built without SOCI");
}

void delete_row(std::string const&, std::string const&) {
  throw std::runtime_error("this rowlock-torture was built without SOCI");
}

std::string make_client_role(std::string const&, bool) {
  throw std::runtime_error("this rowlock-torture was built without SOCI");
}

void drop_client_role(std::string const&) {
  throw std::runtime_error("this rowlock-torture was built without SOCI");
}

void let_clients_lock(std::string const&) {
  throw std::runtime_error("this rowlock-torture was built without SOCI");
}

void let_clients_write(std::string const&, bool) {
  throw std::runtime_error("this rowlock-torture was built without SOCI");
}

}  // namespace rowlock::torture

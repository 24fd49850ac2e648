#include "by_hand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "sql_session.hpp"

namespace rowlock::torture {
namespace {

// Other machines' clients may have the same ports: only those at the operator's own address count. Behind a
// pooler, or where addresses are translated, those of other programs may be at one of them: so also database
// and role must be the same.
constexpr std::string_view postgresql_sessions =
    "SELECT pid, client_port FROM pg_stat_activity "
    "WHERE client_addr = inet_client_addr() AND pid <> pg_backend_pid() "
    "AND datname = current_database() AND usename IN (current_user, 'torture_client')";
constexpr std::string_view mysql_sessions =
    "SELECT CAST(p.ID AS SIGNED), CAST(SUBSTRING_INDEX(p.HOST, ':', -1) AS SIGNED) "
    "FROM information_schema.PROCESSLIST AS p, information_schema.PROCESSLIST AS own "
    "WHERE own.ID = CONNECTION_ID() AND p.ID <> own.ID AND p.HOST LIKE '%:%' "
    "AND SUBSTRING_INDEX(p.HOST, ':', 1) = SUBSTRING_INDEX(own.HOST, ':', 1) "
    "AND p.DB = own.DB AND p.USER IN (own.USER, 'torture_client')";

constexpr std::string_view client_role_name = "torture_client";

/// What it writes to, as rowlock_locking of schema/*-grants.sql does.
struct table_rights {
  std::string_view table;
  std::string_view rights;
};
constexpr std::array<table_rights, 3> all_written{{{"torture_locks", "INSERT, UPDATE, DELETE"},
                                                   {"torture_tokens", "INSERT, UPDATE"},
                                                   {"torture_permits", "INSERT, UPDATE, DELETE"}}};
constexpr std::array<std::string_view, 6> all_read{"torture_meta",    "torture_locks",  "torture_tokens",
                                                   "torture_permits", "torture_quorum", "torture_quarantine"};

std::string some_password() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

/// The last `user` that libpq reads counts.
std::string as_client(std::string const& db, std::string const& password) {
  if (is_mysql(db))
    return std::regex_replace(db, std::regex("^([a-z]+://)([^@/]*@)?"),
                              fmt::format("$1{}:{}@", client_role_name, password));
  if (db.find("://") != db.npos)
    throw std::runtime_error("--client-role: --db must be as host=127.0.0.1 port=5432 ..., and no URL");
  return fmt::format("{} user={} password={}", db, client_role_name, password);
}

}  // namespace

bool has_soci() noexcept { return true; }

bool can_be_reached_by_sql(std::string const& db) { return !is_mysql(db) || db.find('?') == db.npos; }

void end_sessions(std::string const& db, std::set<int> const& ports, std::mt19937& random) {
  auto const s = connect(db);
  constexpr std::size_t many = 1000;
  std::vector<long long> ids(many);
  std::vector<int> at(many);
  *s << (is_mysql(db) ? mysql_sessions : postgresql_sessions), ::soci::into(ids), ::soci::into(at);
  std::vector<long long> ours;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ports.contains(at[i])) ours.push_back(ids[i]);
  std::shuffle(ours.begin(), ours.end(), random);
  ours.resize(std::min<std::size_t>(ours.size(), 1 + random() % 3));
  for (auto const id : ours) try {
      if (is_mysql(db))
        *s << "KILL " << id;
      else
        *s << "SELECT pg_terminate_backend(" << id << ")";
    } catch (::soci::soci_error const&) {  // it has ended by itself
    }
}

void delete_row(std::string const& db, std::string const& name) {
  *connect(db) << "DELETE FROM torture_locks WHERE name = '" << name << "'";
}

std::string make_client_role(std::string const& db, bool adds) {
  auto const password = some_password();
  auto address = as_client(db, password);
  try {
    drop_client_role(db);
  } catch (::soci::soci_error const&) {  // there is none, as it should be
  }
  auto const s = connect(db);
  try {
    *s << fmt::format("CREATE USER {} {} '{}'", client_role_name, is_mysql(db) ? "IDENTIFIED BY" : "PASSWORD",
                      password);
  } catch (::soci::soci_error const& e) {  // what() has the statement, with the password
    throw std::runtime_error(
        fmt::format("--client-role: {} can't be made: {}", client_role_name, e.get_error_message()));
  }
  if (adds) *s << fmt::format("GRANT SELECT, UPDATE ON torture_sums TO {}", client_role_name);
  let_clients_lock(db);
  return address;
}

void drop_client_role(std::string const& db) {
  auto const s = connect(db);
  // PostgreSQL drops no role that still has rights.
  if (!is_mysql(db)) *s << fmt::format("DROP OWNED BY {}", client_role_name);
  *s << fmt::format("DROP USER {}", client_role_name);
}

void let_clients_lock(std::string const& db) {
  auto const s = connect(db);
  for (auto const& table : all_read) *s << fmt::format("GRANT SELECT ON {} TO {}", table, client_role_name);
  for (auto const& table : {"torture_pulse", "torture_reach"})
    if (!is_mysql(db) || table == std::string_view("torture_pulse"))
      *s << fmt::format("GRANT SELECT, INSERT, DELETE ON {} TO {}", table, client_role_name);
  let_clients_write(db, true);
}

void let_clients_write(std::string const& db, bool may) {
  auto const s = connect(db);
  for (auto const& w : all_written)
    *s << fmt::format("{} {} ON {} {} {}", may ? "GRANT" : "REVOKE", w.rights, w.table, may ? "TO" : "FROM",
                      client_role_name);
}

}  // namespace rowlock::torture

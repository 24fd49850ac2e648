#include "by_hand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sql_session.hpp"

namespace rowlock::torture {
namespace {

// Other machines' clients may have the same ports: only those at the operator's own address count.
constexpr std::string_view postgresql_sessions =
    "SELECT pid, client_port FROM pg_stat_activity "
    "WHERE client_addr = inet_client_addr() AND pid <> pg_backend_pid()";
constexpr std::string_view mysql_sessions =
    "SELECT CAST(p.ID AS SIGNED), CAST(SUBSTRING_INDEX(p.HOST, ':', -1) AS SIGNED) "
    "FROM information_schema.PROCESSLIST AS p, information_schema.PROCESSLIST AS own "
    "WHERE own.ID = CONNECTION_ID() AND p.ID <> own.ID AND p.HOST LIKE '%:%' "
    "AND SUBSTRING_INDEX(p.HOST, ':', 1) = SUBSTRING_INDEX(own.HOST, ':', 1)";

}  // namespace

bool has_soci() noexcept { return true; }

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

}  // namespace rowlock::torture

// A session's set-up, and its user's search path.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>

#include "backend/postgresql/session.hpp"
#include "backend/postgresql/settings.hpp"
#include "base/never_destroyed.hpp"

namespace rowlock::backend::postgresql {
namespace {

constexpr int oldest_server = 13'00'00;
// A role's short statement_timeout can end the set-up now and then.
constexpr int most_set_ups = 20;
constexpr char const* set_up_name = "session set-up";

// Leaves out pg_temp if the user names it: temporary tables exclude no other session.
std::vector<std::string> schemas_in(char const* json) {
  std::vector<std::string> all;
  for (auto const& name : nlohmann::json::parse(json, nullptr, false)) {
    auto const* schema = name.get_ptr<std::string const*>();
    if (schema != nullptr && !schema->starts_with("pg_")) all.push_back(*schema);
  }
  return all;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

// One round trip. The server itself detects a pooler, and then sets nothing: settings would stay for other
// programs.
void session::set_up(boot_time_point deadline) {
  int const version = PQserverVersion(channel_.native());
  if (version < oldest_server)
    throw error(errc::unsupported,
                fmt::format("{}: PostgreSQL {} is too old: {} is the oldest that rowlock works on", where_,
                            version / 1'00'00, oldest_server / 1'00'00));
  bool check_client = true;
  for (int tries = 1;; ++tries) {
    auto const text = set_up_text(version, check_client, pooling_, PQbackendPID(channel_.native()));
    auto const results = [&] {
      try {
        return finish(PQsendQuery(channel_.native(), text.c_str()) == 1, set_up_name, stake::nothing,
                      deadline);
      } catch (error const& e) {
        // Servers on some operating systems cannot watch their clients.
        bool const can_not_watch = check_client && e.sqlstate() == "22023";
        if (can_not_watch) check_client = false;
        if (!can_not_watch && (e.sqlstate() != "57014" || tries == most_set_ups)) throw;
        return std::vector<native_result>{};
      }
    }();
    if (results.empty()) continue;
    if (results.size() <= who_place) give_up(stake::nothing, set_up_name, no_answer_text);
    return meet(results[who_place].get());
  }
}

void session::meet(PGresult const* who) {
  if (PQntuples(who) != 1 || PQnfields(who) != 4 || !is_number(PQgetvalue(who, 0, 0)) ||
      !is_number(PQgetvalue(who, 0, 1)))
    give_up(stake::nothing, set_up_name, no_answer_text);
  whereabouts const here{PQgetvalue(who, 0, 0), PQgetvalue(who, 0, 1)};
  local_settings_ = local_settings_text(PQserverVersion(channel_.native()), here, true);
  local_unflushed_ = local_settings_text(PQserverVersion(channel_.native()), here, false);
  identity_ = fmt::format("postgresql:{}:{}", PQgetvalue(who, 0, 0), PQgetvalue(who, 0, 1));
  if (pooling_ == pooling::detect)
    pooling_ = std::to_string(PQbackendPID(channel_.native())) == PQgetvalue(who, 0, 2)
                   ? pooling::session
                   : pooling::transaction;
  path_ = schemas_in(PQgetvalue(who, 0, 3));
  channel_.expect_long_replies();
  if (pooling_ != pooling::transaction) return;
  std::string_view const encoding = pg_encoding_to_char(PQclientEncoding(channel_.native()));
  if (encoding != "UTF8")
    throw error(errc::unsupported,
                fmt::format("{}: client_encoding is {}: behind a pooler rowlock changes no setting of the "
                            "session, so ask for UTF8 when connecting",
                            where_, encoding));
}

// In the pooler's session another program can have left a search path. The user's, role's or database's
// counts.
std::vector<std::string> session::usual_path(boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("search path");
  if (pooling_ != pooling::transaction) return path_;
  begin(what, deadline);
  auto const results =
      finish(PQsendQuery(channel_.native(),
                         "SET LOCAL statement_timeout = 0; SET LOCAL search_path TO DEFAULT;"
                         " SELECT pg_catalog.array_to_json(pg_catalog.current_schemas(false))") == 1,
             what, stake::nothing, deadline);
  if (results.empty() || PQntuples(results.back().get()) != 1 || PQnfields(results.back().get()) != 1)
    give_up(stake::nothing, what, no_answer_text);
  return schemas_in(PQgetvalue(results.back().get(), 0, 0));
}

// Not a view: reading it runs functions of its maker. [C12]
std::optional<std::string> session::find_schema(std::string const& table, bool or_new,
                                                boot_time_point deadline) {
  auto const path = usual_path(deadline);
  static auto const& find = base::never_destroyed<statement>(
      statement{"find_schema",
                "SELECT p.name FROM json_array_elements_text($1::json) WITH ORDINALITY AS p(name, place)"
                " WHERE EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relkind IN ('r', 'p')"
                " AND c.oid = to_regclass(format('%I.%I', p.name, $2::text))) ORDER BY p.place LIMIT 1"});
  std::vector<value> const parameters{nlohmann::json(path).dump(), table};
  auto const found = execute(find, parameters, deadline);
  if (found.rows.empty() && (!or_new || path.empty())) return std::nullopt;
  auto schema = found.rows.empty() ? path.front() : as_text(found.rows[0].at(0));
  // Statements and functions contain the schema, also within strings.
  if (schema.find('\'') != schema.npos || schema.find("$$") != schema.npos)
    throw error(errc::unsupported,
                fmt::format("{}: rowlock's tables can't be in schema {}, which the search path leads to: its "
                            "name could end a string",
                            where_, schema),
                find.name, "", 0);
  return schema;
}

}  // namespace rowlock::backend::postgresql

// schema/*-grants.sql for one role, which is there already, with the tables' own prefix and schema.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "cli.hpp"
#include "exit_status.hpp"
#include "grants.inc"

namespace rowlock::tool {
namespace {

struct grants_options {
  std::string role;
  bool reaping = false;
  std::string dialect;  ///< empty: that of the database
};

constexpr char const* grants_footer = R"(
Prints SQL, and connects to nothing: for the tables' owner to read, and to run. It is what schema/postgresql-grants.sql and
schema/mysql-grants.sql say, for a role that is there already: the second database of one server, other tables beside the first
ones, an account that is made elsewhere.

Examples:
  rowlock --db postgresql://owner@db.example.org/app grants --role app | psql -1 -v ON_ERROR_STOP=1 -h db.example.org app
  rowlock --schema locks grants --dialect postgresql --role app --reaping
  rowlock --table-prefix shop_ grants --dialect mysql --role "app@'%'" | mysql shop

Exit status: 0; 64 the command line is wrong, 74 the output could not be written (rowlock --help).)";

bool mysql_like(grants_options const& o) { return o.dialect == "mysql"; }

std::string in_quotes(std::string_view name, char quote) {
  std::string out(1, quote);
  for (char const c : name) out.append(c == quote ? 2 : 1, c);
  return out + quote;
}

/// MySQL's accounts: app, app@%, or as SQL has it.
std::string role_in_sql(grants_options const& o) {
  if (!mysql_like(o)) return in_quotes(o.role, '"');
  if (o.role.find('\'') != o.role.npos) return o.role;
  auto const at = o.role.rfind('@');
  if (at == o.role.npos) return in_quotes(o.role, '\'');
  return in_quotes(o.role.substr(0, at), '\'') + "@" + in_quotes(o.role.substr(at + 1), '\'');
}

void expect_identifier(char const* what, std::string const& text) {
  if (!std::regex_match(text, std::regex("[A-Za-z_][A-Za-z0-9_]*")))
    throw failure(exit_usage,
                  fmt::format("{} '{}' must be made of letters, digits and underscores and not begin with a "
                              "digit",
                              what, text));
}

/// The lines of the file that are for this role, with the comments above them: `mine` of the two that it
/// makes.
std::string lines_for(std::string_view file, std::string const& mine) {
  std::istringstream lines{std::string(file)};
  std::string out, comment;
  bool of_mine = false;  // the last statement, whose comments behind it are for it, too
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("--")) {
      comment += line + '\n';
    } else if (line.starts_with("GRANT")) {
      bool const now = line.find("TO " + mine) != line.npos;
      if (now) out += comment + line + '\n';
      comment.clear();
      of_mine = now;
    } else {
      if (of_mine) out += comment;
      comment.clear();
      of_mine = false;
    }
  }
  return out;
}

end_of_program print_grants(invocation& call, grants_options o) {
  if (o.dialect.empty()) {
    auto const& db = call.use_database();
    if (db.is_file())
      throw failure(exit_usage,
                    "SQLite has no roles: who may read and write the file and its folder may lock. Name the "
                    "database with --db, or --dialect postgresql or mysql");
    o.dialect = takes_password_file(db.url) ? "mysql" : "postgresql";
  }
  expect_identifier("the table prefix", call.table_prefix);
  if (!call.schema.empty()) expect_identifier("the schema", call.schema);
  char const quote = mysql_like(o) ? '`' : '"';
  auto const schema = call.schema.empty() ? "" : in_quotes(call.schema, quote) + ".";
  std::string const mine = o.reaping ? "rowlock_reaping" : "rowlock_locking";
  auto const role = role_in_sql(o);
  auto text = lines_for(mysql_like(o) ? mysql_grants : postgresql_grants, mine);
  for (auto at = text.find(mine); at != text.npos; at = text.find(mine, at + role.size()))
    text.replace(at, mine.size(), role);
  if (!schema.empty() || call.table_prefix != invocation{}.table_prefix)
    text = std::regex_replace(text, std::regex("( ON (?:PROCEDURE )?)rowlock_([a-z_]+)"),
                              fmt::format("$1{}{}$2{}", schema + quote, call.table_prefix, quote));
  if (!schema.empty() && !mysql_like(o))
    fmt::print("GRANT USAGE ON SCHEMA {} TO {};\n", in_quotes(call.schema, quote), role);
  fmt::print("{}", text);
  return {exit_ok, {}};
}

}  // namespace

void add_grants(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<grants_options>();
  auto* command = app.add_subcommand("grants", "Prints what a role needs to lock, or to reap, as SQL");
  command->fallthrough();
  command->add_option("--role", options->role, "The role, user or account that the rights are for")
      ->type_name("ROLE")
      ->required();
  command->add_flag("--reaping", options->reaping,
                    "What `rowlock reap` needs, instead of what locking needs");
  command->add_option("--dialect", options->dialect, "postgresql or mysql; default: that of --db")
      ->type_name("NAME")
      ->check(CLI::IsMember({"postgresql", "mysql"}));
  command->footer(grants_footer);
  command->callback(
      [&call, options] { call.chosen = [&call, options] { return print_grants(call, *options); }; });
}

}  // namespace rowlock::tool

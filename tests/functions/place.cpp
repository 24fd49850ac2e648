#include "functions/place.hpp"

#include <fmt/format.h>

#include <regex>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <stdexcept>

#include "backend/backend.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

std::string shell_quoted(std::string const& text) {
  return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'";
}

std::string joined(std::vector<std::string> const& command) {
  std::string line;
  for (auto const& word : command) line += shell_quoted(word) + ' ';
  return line;
}

// Errors where the test reads; no settings of whoever runs it.
std::vector<std::string> in_shell(std::string const& line) {
  return {"/bin/sh", "-c", "HOME=/nonexistent; export HOME; exec 2>&1; " + line};
}

std::string output_of(std::string const& line) {
  child_process p(in_shell(line));
  int const status = p.finish();
  INFO(p.output());
  REQUIRE(status == 0);
  return p.output();
}

}  // namespace

client::client(std::vector<std::string> const& command, std::string mark_before, std::string mark_after)
    : process_(in_shell("exec " + joined(command))),
      mark_before_(std::move(mark_before)),
      mark_after_(std::move(mark_after)) {}

std::string client::run(std::string const& sql) {
  send(sql);
  auto out = reply();
  if (!out) throw std::runtime_error("no reply to " + sql);
  return *out;
}

void client::send(std::string const& sql) {
  process_.write_line(sql);
  process_.write_line(fmt::format("{}-- end {}{}", mark_before_, ++marks_, mark_after_));
  so_far_.clear();
}

std::optional<std::string> client::reply(std::chrono::milliseconds patience) {
  auto const mark = fmt::format("-- end {}", marks_);
  for (;;) {
    auto const line = process_.next_line(patience);
    if (!line) return std::nullopt;
    if (*line == mark) return so_far_;
    so_far_ += (so_far_.empty() ? "" : "\n") + *line;
  }
}

std::unique_ptr<lock_manager> place::manager() const {
  return std::make_unique<lock_manager>(*source_, manager_options{.table_prefix = prefix, .schema = schema});
}

void place::migrate() const { migrator(*source_, {.table_prefix = prefix, .schema = schema}).up(); }

std::string place::table(std::string const& what) const {
  return schema.empty() ? prefix + what : fmt::format("{}.{}{}", schema, prefix, what);
}

std::string place::ask(std::string const& sql) const { return session()->run(sql); }

void place::expire(std::string const& name) const {
  REQUIRE(ask(fmt::format("UPDATE {} SET expires_at = {} WHERE name = {};", table("locks"), in_seconds(-1),
                          literal(name)))
              .empty());
}

std::optional<taken> place::taken_in(std::string const& reply) {
  if (reply.empty()) return std::nullopt;
  std::smatch found;
  INFO(reply);
  REQUIRE(std::regex_match(reply, found, std::regex("([0-9a-f]{32})[|]([0-9]+)")));
  return taken{found[1], std::stoll(found[2])};
}

std::optional<taken> place::take(client& c, std::string const& name, int ttl_ms) const {
  return taken_in(c.run(take_text(name, ttl_ms)));
}

std::string place::renew(client& c, std::string const& name, std::string const& term) const {
  return c.run(call("renew", name, term));
}

std::string place::release(client& c, std::string const& name, std::string const& term) const {
  return c.run(call("release", name, term));
}

std::string place::require(client& c, std::string const& name, std::string const& term) const {
  return c.run(call("require", name, term));
}

std::string place::permit_text(std::string const& name, std::int64_t units, std::int64_t limit,
                               int ttl_ms) const {
  return taking("try_acquire_permit",
                fmt::format("{}, {}, {}", literal(name), units, limit ? std::to_string(limit) : "NULL"),
                ttl_ms);
}

std::optional<taken> place::read(client& c, std::string const& name, int ttl_ms) const {
  return taken_in(c.run(read_text(name, ttl_ms)));
}

std::optional<taken> place::write(client& c, std::string const& name, int ttl_ms) const {
  return taken_in(c.run(write_text(name, ttl_ms)));
}

std::optional<taken> place::permit(client& c, std::string const& name, std::int64_t units,
                                   std::int64_t limit) const {
  return taken_in(c.run(permit_text(name, units, limit)));
}

void place::expire_permits(std::string const& name) const {
  REQUIRE(ask(fmt::format("UPDATE {} SET expires_at = {} WHERE name = {};", table("permits"), in_seconds(-1),
                          literal(name)))
              .empty());
}

std::int64_t place::permits_of(std::string const& name) const {
  return std::stoll(
      ask(fmt::format("SELECT count(*) FROM {} WHERE name = {};", table("permits"), literal(name))));
}

std::optional<std::string> place::once(client& c, std::string const& name, int ttl_ms) const {
  auto const reply = c.run(once_text(name, ttl_ms));
  std::smatch found;
  INFO(reply);
  if (std::regex_match(reply, found, std::regex("([0-9a-f]{32})[|][0-9]+[|]0[|]"))) return found[1];
  REQUIRE((reply.empty() || reply.starts_with("||1|")));
  return std::nullopt;
}

postgresql_place::postgresql_place(bool own_schema) {
  auto const admin = postgresql::source(postgresql_conninfo());
  admin.implementation()
      ->connect(boot_clock::now() + 60s)
      ->script("CREATE SCHEMA " + name_, boot_clock::now() + 60s);
  source_ = std::make_unique<connection_source>(postgresql::source(
      own_schema ? postgresql_conninfo()
                 : fmt::format("{} options='-c search_path={}'", postgresql_conninfo(), name_)));
  if (own_schema) {
    schema = name_;
    prefix = "p_";
  }
  migrate();
}

postgresql_place::~postgresql_place() {
  auto const gone = session()->run(fmt::format("DROP SCHEMA {} CASCADE;", name_));
  WARN_MESSAGE(gone.find("ERROR") == std::string::npos, gone);
}

std::vector<std::string> postgresql_place::command() const {
  auto const path = schema.empty() ? fmt::format("-c search_path={}", name_) : "-c search_path=public";
  return {"psql", "-XqAt",
          fmt::format("{} options='{} -c client_min_messages=warning'", postgresql_conninfo(), path)};
}

std::unique_ptr<client> postgresql_place::session() const {
  auto out = std::make_unique<client>(command(), "\\echo ", "");
  out->run("\\set VERBOSITY verbose");
  return out;
}

std::string postgresql_place::apply(std::string const& file) const {
  return output_of(joined(command()) + "-v ON_ERROR_STOP=1 -f " + shell_quoted(source_path(file)));
}

std::string postgresql_place::literal(std::string const& text) const {
  return "'" + std::regex_replace(text, std::regex("'"), "''") + "'";
}

std::string postgresql_place::in_seconds(int s) const {
  return fmt::format("clock_timestamp() + {} * interval '1 second'", s);
}

std::string postgresql_place::taking(std::string const& function, std::string const& arguments,
                                     int ttl_ms) const {
  return fmt::format("SELECT term, token FROM {}({}, {} * interval '1 millisecond', 'by psql');",
                     table(function), arguments, ttl_ms);
}

std::string postgresql_place::taking_once(std::string const& name, int ttl_ms) const {
  return fmt::format(
      "SELECT term, token, done::int, result FROM {}({}, {} * interval '1 millisecond', 'by psql');",
      table("try_acquire_once"), literal(name), ttl_ms);
}

std::string postgresql_place::recording(std::string const& name, std::string const& term,
                                        std::string const& result, std::int64_t keep_ms) const {
  return fmt::format("DO $do$ BEGIN PERFORM {}({}, {}, {} * interval '1 millisecond', {}); END $do$;",
                     table("done"), literal(name), literal(term), keep_ms, literal(result));
}

std::string postgresql_place::call(std::string const& function, std::string const& name,
                                   std::string const& term) const {
  auto const made = fmt::format("{}({}, {})", table(function), literal(name), literal(term));
  return function.starts_with("require") ? fmt::format("DO $do$ BEGIN PERFORM {}; END $do$;", made)
                                         : fmt::format("SELECT {}::int;", made);
}

mysql_like_place::mysql_like_place(std::string const& server, bool own_schema) : server_(server) {
  auto const admin = mysql::source(server);
  admin.implementation()
      ->connect(boot_clock::now() + 60s)
      ->script("CREATE DATABASE " + name_, boot_clock::now() + 60s);
  source_ =
      std::make_unique<connection_source>(mysql::source(own_schema ? server : with_database(server, name_)));
  if (own_schema) {
    schema = name_;
    prefix = "p_";
  }
  migrate();
}

mysql_like_place::~mysql_like_place() {
  auto const gone = session()->run(fmt::format("DROP DATABASE {};", name_));
  WARN_MESSAGE(gone.find("ERROR") == std::string::npos, gone);
}

std::vector<std::string> mysql_like_place::command() const {
  std::smatch part;
  std::regex const url("mysql://([^:]*):([^@]*)@([^:]*):([0-9]+)/(.*)");
  if (!std::regex_match(server_, part, url)) throw std::runtime_error("not understood: " + server_);
  return {"mariadb",
          "--no-defaults",
          "--host=" + part[3].str(),
          "--port=" + part[4].str(),
          "--user=" + part[1].str(),
          "--password=" + part[2].str(),
          "--default-character-set=utf8mb4",
          "--batch",
          "--raw",
          "--skip-column-names",
          "--unbuffered",
          schema.empty() ? name_ : part[5].str()};
}

std::unique_ptr<client> mysql_like_place::session() const {
  auto words = command();
  words.insert(words.end() - 1, "--force");
  return std::make_unique<client>(words, "SELECT '", "';");
}

std::string mysql_like_place::apply(std::string const& file) const {
  return output_of(joined(command()) + "<" + shell_quoted(source_path(file)));
}

std::string mysql_like_place::literal(std::string const& text) const {
  return "'" + std::regex_replace(text, std::regex("['\\\\]"), "\\$&") + "'";
}

std::string mysql_like_place::in_seconds(int s) const {
  return fmt::format("utc_timestamp(6) + INTERVAL {} SECOND", s);
}

std::string mysql_like_place::taking(std::string const& function, std::string const& arguments,
                                     int ttl_ms) const {
  return fmt::format(
      "SET @t = NULL, @k = NULL; CALL {}({}, {}, 'by mysql', @t, @k); "
      "SELECT concat(@t, '|', @k) FROM (SELECT 1) AS one WHERE @t IS NOT NULL;",
      table(function), arguments, ttl_ms);
}

std::string mysql_like_place::taking_once(std::string const& name, int ttl_ms) const {
  return fmt::format(
      "SET @t = NULL, @k = NULL, @d = NULL, @r = NULL; CALL {}({}, {}, 'by mysql', @t, @k, @d, @r); "
      "SELECT concat(coalesce(@t, ''), '|', coalesce(@k, ''), '|', @d, '|', coalesce(@r, '')) "
      "FROM (SELECT 1) AS one WHERE @t IS NOT NULL OR @d = 1;",
      table("try_acquire_once"), literal(name), ttl_ms);
}

std::string mysql_like_place::recording(std::string const& name, std::string const& term,
                                        std::string const& result, std::int64_t keep_ms) const {
  return fmt::format("CALL {}({}, {}, {}, {});", table("done"), literal(name), literal(term), keep_ms,
                     literal(result));
}

std::string mysql_like_place::call(std::string const& function, std::string const& name,
                                   std::string const& term) const {
  if (function.starts_with("require"))
    return fmt::format("CALL {}({}, {});", table(function), literal(name), literal(term));
  return fmt::format("SET @ok = 'unset'; CALL {}({}, {}, @ok); SELECT coalesce(@ok, '');", table(function),
                     literal(name), literal(term));
}

}  // namespace rowlock::test

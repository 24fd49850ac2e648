#include "cli/place.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <algorithm>

#include <memory>
#include <rowlock/mysql.hpp>
#include <stdexcept>

#include "backend/backend.hpp"

namespace rowlock::test {

words place::command(words args) const {
  words all{rowlock_program};
  auto const before = options();
  all.insert(all.end(), before.begin(), before.end());
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

environment place::variables(environment more) const {
  more.emplace("ROWLOCK_DB", url());
  return more;
}

finished place::rowlock(words args, environment env) const {
  return run(command(std::move(args)), variables(std::move(env)));
}

on_sqlite::on_sqlite(bool migrated) {
  if (migrated) REQUIRE(rowlock({"migrate", "up"}).status == 0);
}

void on_sqlite::sql(std::string const& text) const {
  sqlite3* opened = nullptr;
  int code = sqlite3_open_v2(file().c_str(), &opened, SQLITE_OPEN_READWRITE, nullptr);
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> const db(opened, &sqlite3_close_v2);
  sqlite3_busy_timeout(opened, 60'000);
  if (code == SQLITE_OK) code = sqlite3_exec(opened, text.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(opened));
}

namespace {

manager_options in_place(place const& p) {
  manager_options o;
  if (auto const all = p.options(); all.size() == 2) o.schema = all[1];
  return o;
}

}  // namespace

other_reaper::other_reaper(place const& p)
    : manager_(p.url(), in_place(p)),
      held_(manager_.make_mutex("rowlock.reaper", {.ttl = std::chrono::minutes(1), .fencing = false})
                .acquire()) {}

on_postgresql::on_postgresql(bool migrated) {
  if (migrated) REQUIRE(rowlock({"migrate", "up"}).status == 0);
}

on_postgresql::~on_postgresql() {
  try {
    sql("DROP SCHEMA IF EXISTS " + schema_ + " CASCADE");
  } catch (std::exception const&) {  // the server is gone, which the case itself has noticed
  }
}

void on_postgresql::sql(std::string const& text) const {
  std::unique_ptr<PGconn, void (*)(PGconn*)> const db(::PQconnectdb(url().c_str()), &::PQfinish);
  auto const all = "SET client_min_messages = error; SET search_path = " + schema_ + "; " + text;
  std::unique_ptr<PGresult, void (*)(PGresult*)> const done(::PQexec(db.get(), all.c_str()), &::PQclear);
  if (::PQresultStatus(done.get()) != PGRES_COMMAND_OK) throw std::runtime_error(::PQerrorMessage(db.get()));
}

namespace {

void run_on(std::string const& url, std::string const& text) {
  auto const soon = boot_clock::now() + std::chrono::seconds(60);
  mysql::source(url).implementation()->connect(soon)->script(text, soon);
}

}  // namespace

on_mysql_like::on_mysql_like(std::string const& server, bool migrated)
    : url_(with_database(server, database_)) {
  run_on(server, "CREATE DATABASE " + database_);
  if (migrated) REQUIRE(rowlock({"migrate", "up"}).status == 0);
}

on_mysql_like::~on_mysql_like() {
  try {
    sql("SET SESSION lock_wait_timeout = 50; DROP DATABASE IF EXISTS " + database_);
  } catch (std::exception const&) {  // the server is gone, which the case itself has noticed
  }
}

void on_mysql_like::sql(std::string const& text) const { run_on(url_, text); }

namespace {

bool is_sqlite(place const& p) { return p.dialect() == "sqlite"; }
bool is_mysql(place const& p) { return p.dialect() == "mysql"; }

}  // namespace

std::string hours_ago(place const& p, int hours) {
  if (is_mysql(p)) return fmt::format("utc_timestamp(6) - INTERVAL {} HOUR", hours);
  return is_sqlite(p) ? fmt::format("cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - {}",
                                    hours * 3'600'000LL)
                      : fmt::format("clock_timestamp() - {} * interval '1 hour'", hours);
}

void leave_idle(place const& p, int count) {
  if (is_mysql(p)) {
    // In parts: each is a statement, and a busy machine must reply in time.
    auto const then = hours_ago(p, 48);
    for (int i = 1; i <= count;) {
      std::string rows;
      for (int const end = std::min(count, i + 4'999); i <= end; ++i)
        rows += fmt::format("{}('n{}', 'lease', {}, {})", rows.empty() ? "" : ",", i, i, then);
      p.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES " + rows);
    }
    return;
  }
  auto const numbers =
      is_sqlite(p)
          ? fmt::format("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})", count)
          : fmt::format("WITH n AS (SELECT generate_series(1, {}) AS i)", count);
  p.sql(
      fmt::format("INSERT INTO rowlock_locks (name, strategy, token, expires_at) {} SELECT 'n' || i, "
                  "'lease', i, {} FROM n",
                  numbers, hours_ago(p, 48)));
}

}  // namespace rowlock::test

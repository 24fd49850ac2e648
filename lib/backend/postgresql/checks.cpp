// The doctor's checks for PostgreSQL.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <libpq-fe.h>

#include <cstdlib>
#include <set>

#include "backend/postgresql/checks.hpp"

namespace rowlock::backend::postgresql {
namespace {

// Not idle_in_transaction_session_timeout, which rowlock itself sets.
constexpr auto timeout_names = {"statement_timeout", "idle_session_timeout", "transaction_timeout"};

constexpr long long shortest_timeout_ms = 100;

std::string backend_pid(result const& status) { return settings(status)["backend_pid"]; }

}  // namespace

std::optional<opinion> writable(examiner& x) {
  constexpr auto primary = "Connect to the primary: name all hosts, with target_session_attrs=read-write.";
  if (x.known("doctor_status").on("in_recovery"))
    return opinion{verdict::error, "this server is a standby, which takes no writes", primary};
  if (x.known("doctor_session").on("transaction_read_only"))
    return opinion{
        verdict::error, "transactions of this role are read-only here (default_transaction_read_only = on)",
        fmt::format("Connect to the primary; or: ALTER ROLE {} SET default_transaction_read_only = off",
                    x.known("doctor_status")["user"])};
  if (auto refused = refused_writes(x)) return refused;
  return opinion{verdict::ok, "this server takes writes"};
}

std::optional<opinion> isolation(examiner& x) {
  auto const& here = x.known("doctor_session")["transaction_isolation"];
  auto const& usual = x.known("doctor_settings")["default_transaction_isolation"];
  if (here != "read committed")
    return opinion{verdict::error,
                   fmt::format("transactions run at {}, although rowlock has set read committed: a session's "
                               "settings get lost",
                               here),
                   "Is there a pooler in between? See `pooler`."};
  return opinion{verdict::ok,
                 usual == here
                     ? "read committed"
                     : fmt::format("read committed, as rowlock sets it ({} by default here)", usual)};
}

std::optional<opinion> timeouts(examiner& x) {
  auto const too_soon = list_on(x.known("doctor_session"), timeout_names);
  if (!too_soon.empty())
    return opinion{
        verdict::error,
        fmt::format("the server ends what takes longer, although rowlock has switched that off: {} (in "
                    "milliseconds): a session's settings get lost",
                    too_soon),
        "Is there a pooler in between? See `pooler`."};
  // Until rowlock's first statement the role's value applies.
  auto const role_s = x.known("doctor_settings")["statement_timeout"];
  if (auto const ms = std::atoll(role_s.c_str()); ms > 0 && ms < shortest_timeout_ms)
    return opinion{
        verdict::warning,
        fmt::format("statement_timeout = {} (milliseconds) by default here: it may end a session's first "
                    "statement, before rowlock can switch it off",
                    role_s),
        fmt::format("ALTER ROLE {} SET statement_timeout = {}; or 0", x.known("doctor_status")["user"],
                    shortest_timeout_ms)};
  auto const usual = list_on(x.known("doctor_settings"), timeout_names);
  return opinion{verdict::ok, usual.empty()
                                  ? "the server ends no session and no statement by itself"
                                  : fmt::format("rowlock switches off what would end its sessions and "
                                                "statements by default here: {}",
                                                usual)};
}

constexpr auto logged_tables = {"meta",     "locks",  "tokens",     "permits", "quorum",
                                "admitted", "reaper", "migrations", "reach",   "quarantine"};
// A crash has to empty this one: by that it shows. See quarantine.hpp
constexpr auto unlogged_table = "pulse";
constexpr auto tables_of_ours = {"meta",   "locks",      "tokens", "permits",    "quorum",      "admitted",
                                 "reaper", "migrations", "reach",  "quarantine", unlogged_table};

// A policy that hides rows also hides holders, admissions or voters.
std::optional<opinion> row_security(examiner& x) {
  bool active = false;
  for (auto const* what : tables_of_ours) {
    auto const table = x.options().table_prefix + what;
    auto const found = x.table(what);
    if (!found || as_int(found->at(5)) == 0) continue;
    active = true;
    if (as_int(found->at(6)) != 0)
      return opinion{
          verdict::error,
          fmt::format(
              "row-level security may hide rows of {} from this role: what it can't see it can't lock",
              table),
          fmt::format(
              "CREATE POLICY all_rows ON {} TO {} USING (true); or ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
              table, x.known("doctor_status")["user"], table)};
  }
  if (!active) return std::nullopt;
  return opinion{verdict::ok, "row-level security is on, and hides nothing from this role"};
}

std::optional<opinion> durability(examiner& x) {
  auto const& all = x.known("doctor_settings");
  if (!all.on("fsync"))
    return opinion{
        verdict::error,
        "fsync = off: after a power cut locks and fencing tokens that were granted may be gone, or the "
        "whole database",
        "fsync = on in postgresql.conf"};
  bool const less = x.session().facts().flushes_less;
  if (auto const& commit = x.known("doctor_session")["synchronous_commit"];
      !less && commit != "on" && commit != "remote_apply")
    return opinion{
        verdict::error,
        fmt::format("synchronous_commit = {}, although rowlock has set on: a session's settings get lost",
                    commit),
        "Is there a pooler in between? See `pooler`."};
  if (auto const found = x.table(unlogged_table); found && as_text(found->at(0)) != "u")
    return opinion{verdict::error,
                   fmt::format("{0}{1} is not an unlogged table: after a crash that forgot locks they are "
                               "granted again at once",
                               x.options().table_prefix, unlogged_table),
                   fmt::format("ALTER TABLE {}{} SET UNLOGGED", x.options().table_prefix, unlogged_table)};
  for (auto const* what : logged_tables)
    if (auto const found = x.table(what); found && as_text(found->at(0)) != "p")
      return opinion{verdict::error,
                     fmt::format("{0}{1} is an unlogged table: a crash of the server empties it",
                                 x.options().table_prefix, what),
                     fmt::format("ALTER TABLE {}{} SET LOGGED", x.options().table_prefix, what)};
  if (!all.on("full_page_writes"))
    return opinion{
        verdict::warning,
        "full_page_writes = off: a power cut may leave half a page, unless the file system never does",
        "full_page_writes = on in postgresql.conf"};
  if (less)
    return opinion{
        verdict::ok,
        "what ends with its process is not flushed, as flush=off says: after a crash none is granted "
        "until forgotten locks are over"};
  if (auto const& usual = all["synchronous_commit"]; usual != "on" && usual != "remote_apply")
    return opinion{verdict::ok,
                   fmt::format("each commit is flushed, as rowlock sets it (synchronous_commit = {} by "
                               "default here)",
                               usual)};
  return opinion{verdict::ok, "each commit is flushed"};
}

std::optional<opinion> replicas(examiner& x) {
  auto const row = x.ask("doctor_replicas").rows.at(0);
  auto const all = as_int(row.at(0));
  auto const seen = as_int(row.at(1));
  auto const synchronous = as_int(row.at(2));
  auto const& names = x.known("doctor_settings")["synchronous_standby_names"];
  if (names.empty()) {
    if (all == 0) return opinion{verdict::ok, "no standby is connected"};
    return opinion{
        verdict::warning,
        fmt::format("{} asynchronous: a failover may forget locks that were granted last. Their holders lose "
                    "them, and none is granted until they would be over",
                    all == 1 ? "the standby is" : fmt::format("all {} standbys are", all)),
        "Name standbys in synchronous_standby_names, or have fencing tokens compared."};
  }
  if (all > 0 && seen < all && synchronous == 0)
    return opinion{verdict::unknown,
                   fmt::format("needs pg_monitor, to see whether one of {} standbys is synchronous "
                               "(synchronous_standby_names = {})",
                               all, names),
                   fmt::format("GRANT pg_monitor TO {}", x.known("doctor_status")["user"])};
  if (synchronous == 0)
    return opinion{verdict::error,
                   fmt::format("no commit ends: synchronous_standby_names = {}, and no such standby is "
                               "connected",
                               names),
                   "Start the standby, or take it out of synchronous_standby_names."};
  return opinion{verdict::ok,
                 fmt::format("commits wait for a standby ({} synchronous of {})", synchronous, all)};
}

// A role that can create objects there can shadow the server's functions and operators. rowlock's SQL avoids
// them, psql might not. Existing objects with names of rowlock's are worse.
std::optional<opinion> creators(examiner& x) {
  auto const schema = x.schema_of_tables();
  if (schema.empty()) return std::nullopt;
  if (auto const there = x.strangers(schema, false); !there.empty())
    return opinion{
        verdict::error,
        fmt::format("{}: what another role has put there may run with the rights of whoever locks, "
                    "migrates or calls rowlock's functions",
                    fmt::join(there, "; ")),
        "Drop it, or name another schema (--schema)."};
  std::string others;
  for (auto const& row : x.ask("doctor_creators", {schema, x.options().table_prefix + "locks"}).rows)
    others += fmt::format("{}{}", others.empty() ? "" : ", ", as_text(row.at(0)));
  if (others.empty())
    return opinion{verdict::ok, fmt::format("no other role may create objects in schema {}", schema)};
  return opinion{
      verdict::warning,
      fmt::format("other roles may create objects in schema {}, where rowlock's tables are: {}; what they "
                  "put there may run with the rights of whoever works on the tables by hand",
                  schema, others),
      fmt::format("REVOKE CREATE ON SCHEMA {} FROM {}; or a schema of rowlock's own (--schema)", schema,
                  others)};
}

constexpr std::int64_t old_seconds = 600;
// Where the time is not known.
constexpr std::int64_t old_transactions = 1'000'000;

std::optional<opinion> snapshots(examiner& x) {
  auto const row = x.ask("doctor_snapshots").rows.at(0);
  auto const part = as_int(row.at(4)) == 0 ? "" : ", of those that this role may see (pg_monitor sees all)";
  if (is_null(row.at(0))) return opinion{verdict::ok, fmt::format("no transaction is open{}", part)};
  bool const timed = !is_null(row.at(1));
  auto const since =
      timed ? fmt::format("{} s", as_int(row.at(1))) : fmt::format("{} transactions", as_int(row.at(2)));
  bool const old = timed ? as_int(row.at(1)) >= old_seconds : as_int(row.at(2)) >= old_transactions;
  if (!old) return opinion{verdict::ok, fmt::format("the oldest transaction is of {} ago{}", since, part)};
  return opinion{verdict::warning,
                 fmt::format("{} has a transaction of {} ago: the server keeps all dead rows since, and "
                             "unique_insert becomes slower with each take",
                             as_text(row.at(0)), since),
                 as_text(row.at(3))};
}

// A pooler answers the log-in with an invented pid, or with that of any session. It counts as one in
// transaction mode, unless the connection string denies this. Then two idle sessions tell: one session of the
// server can serve both.
std::optional<opinion> pooler(examiner& x) {
  auto const facts = x.session().facts();
  auto const first = backend_pid(x.ask("doctor_status"));
  if (!facts.server_process) return std::nullopt;
  if (std::to_string(*facts.server_process) == first)
    return opinion{verdict::ok, "connected to the server itself"};
  if (facts.pooled)
    return opinion{
        verdict::ok,
        "there is a pooler in between: each statement is sent as a transaction of its own, and row_lock is "
        "refused (if it lends out the server's sessions by the session: pooler=session in the "
        "connection string)"};
  auto const second = x.another();
  bool shared = false;
  std::set<std::string> seen{first};
  for (int i = 0; i < 3; ++i) {
    auto const other = backend_pid(x.ask(*second, "doctor_status"));
    auto const here = backend_pid(x.ask("doctor_status"));
    seen.insert(here);
    shared = shared || other == here;
  }
  if (shared || seen.size() > 1)
    return opinion{
        verdict::error,
        "there is a pooler in between (PgBouncer or the like) that lends out the server's sessions by the "
        "transaction, although the connection string says pooler=session: settings and prepared statements "
        "get "
        "lost, row locks and time limits with them",
        "Leave out pooler=session, or set pool_mode = session for this database or user."};
  return opinion{verdict::ok, "there is a pooler in between, in session mode as far as can be seen"};
}

std::optional<opinion> tls(examiner& x) {
  auto const facts = x.session().facts();
  auto found = backend::tls(
      facts, facts.encryption.value_or(""),
      "sslmode=verify-full in the connection string, with sslrootcert; and ssl = on in the server.");
  if (found.result != verdict::ok || !facts.gives_password || !facts.leaves_machine.value_or(false))
    return found;
  return opinion{verdict::warning,
                 fmt::format("{}; but the server need not prove its name, and libpq {} sends it the password "
                             "in clear, or as MD5, if it asks for that",
                             found.why, PQlibVersion() / 10'000),
                 "sslmode=verify-full in the connection string, with sslrootcert; or libpq 16, which refuses "
                 "that (require_auth)."};
}

std::optional<opinion> index(examiner& x) {
  for (auto const* what : {"locks", "tokens"}) {
    auto const table = x.options().table_prefix + what;
    auto const found = x.table(what);
    if (!found) return opinion{verdict::unknown, fmt::format("needs the table {} with a column name", table)};
    if (as_int(found->at(4)) == 0)
      return opinion{
          verdict::error,
          fmt::format(
              "no valid unique index makes sure that a name is in {} only once: two may hold one lock",
              table),
          fmt::format("ALTER TABLE {} ADD PRIMARY KEY ({}); see rowlock migrate validate", table,
                      "name, generation")};
    if (is_null(found->at(1)) || as_int(found->at(3)) != 0) continue;
    auto const collation = as_text(found->at(1));
    auto const remedy = fmt::format("ALTER TABLE {} ALTER COLUMN name TYPE text COLLATE \"C\"", table);
    if (as_int(found->at(2)) == 0)
      return opinion{
          verdict::error,
          fmt::format("{}.name has the collation {}: different names may be one lock", table, collation),
          remedy};
    return opinion{
        verdict::warning,
        fmt::format("{}.name has the collation {}: an update of the system's may change its order, and "
                    "spoil the index",
                    table, collation),
        remedy};
  }
  auto const permits = x.options().table_prefix + "permits";
  if (as_int(x.ask("doctor_permits_index", {x.schema_of_tables(), permits}).rows.at(0).at(0)) == 0)
    return opinion{verdict::warning, fmt::format("each take of a permit reads the whole of {}", permits),
                   fmt::format("CREATE INDEX ON {} ((name || ''), token)", permits)};
  std::string plan;
  for (auto const& row : x.ask("doctor_explain").rows)
    plan += (plan.empty() ? "" : "; ") + as_text(row.at(0));
  if (plan.find("Seq Scan") != plan.npos)
    return opinion{verdict::error, fmt::format("a lock's row is looked for in the whole table: {}", plan),
                   "rowlock migrate validate tells what is wrong with the tables."};
  return opinion{verdict::ok, "a lock's row is found by a unique index, names compared byte for byte"};
}

std::span<named_check const> checks() noexcept {
  static constexpr named_check all[] = {{"schema"},
                                        {"grants"},
                                        {"writable", writable},
                                        {"isolation", isolation},
                                        {"timeouts", timeouts},
                                        {"row_security", row_security},
                                        {"durability", durability},
                                        {"replicas", replicas},
                                        {"snapshots", snapshots},
                                        {"creators", creators},
                                        {"pooler", pooler},
                                        {"clock"},
                                        {"keepalive"},
                                        {"waiting"},
                                        {"limits"},
                                        {"tls", tls},
                                        {"index", index}};
  return all;
}

}  // namespace rowlock::backend::postgresql

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>

#include "backend/mysql/checks.hpp"

namespace rowlock::backend::mysql {
namespace {

constexpr auto isolation_names = {"transaction_isolation", "tx_isolation"};
constexpr auto timeout_names = {"max_statement_time", "max_execution_time", "idle_transaction_timeout",
                                "idle_write_transaction_timeout", "idle_readonly_transaction_timeout"};

// "0.000000" is off, too.
bool limits(settings const& s, char const* name) {
  return s[name].find_first_not_of("0.") != std::string::npos;
}

std::string list_limits(settings const& s) {
  std::string out;
  for (auto const* name : timeout_names)
    if (limits(s, name)) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, s[name]);
  return out;
}

/// Whether commits wait for a replica, by either server's names.
struct semi_synchronous {
  bool wanted;
  bool works;
  std::int64_t replicas;
  std::string timeout;
};

semi_synchronous semi_synchronous_of(examiner& x) {
  auto const& all = x.known("doctor_settings");
  auto const& now = x.known("doctor_status");
  bool const new_words = all.has("rpl_semi_sync_source_enabled");
  auto const name = [&](char const* what) {
    return fmt::format("rpl_semi_sync_{}_{}", new_words ? "source" : "master", what);
  };
  return {all.on(name("enabled")), now.on(name("status")), now.number(name("clients")), all[name("timeout")]};
}

/// @throws error(errc::access_denied) without the right to see replicas
std::int64_t count_replicas(examiner& x) {
  // MariaDB tells every user.
  if (x.known("doctor_status").has("slaves_connected"))
    return x.known("doctor_status").number("slaves_connected");
  auto const found = x.ask("doctor_replicas");
  return found.rows.empty() ? 0 : as_int(found.rows[0].at(0));
}

}  // namespace

std::optional<opinion> writable(examiner& x) {
  constexpr auto primary = "Connect to the primary: the URL may name several hosts.";
  if (auto refused = refused_writes(x)) return opinion{refused->result, refused->why, primary};
  return opinion{verdict::ok, "this server takes writes"};
}

std::optional<opinion> isolation(examiner& x) {
  auto const& here = x.known("doctor_session");
  auto const& level = here.any(isolation_names);
  if (level != "READ-COMMITTED" || !here.on("autocommit"))
    return opinion{
        verdict::error,
        fmt::format("sessions run at {} with autocommit = {}, although rowlock has set READ-COMMITTED "
                    "and ON: a session's settings get lost",
                    level, here["autocommit"]),
        "Is there a proxy in between? Connect to the server itself."};
  auto const& all = x.known("doctor_settings");
  if (all.on("log_bin") && here["binlog_format"] == "STATEMENT")
    return opinion{
        verdict::error,
        "binlog_format = STATEMENT: the server refuses every write at READ COMMITTED, which locks need",
        "binlog_format = ROW, or MIXED"};
  auto const& usual = all.any(isolation_names);
  std::string by_default;
  if (usual != level && usual != "REPEATABLE-READ") by_default = usual;
  if (!all.on("autocommit")) by_default += by_default.empty() ? "autocommit = OFF" : ", autocommit = OFF";
  return opinion{
      verdict::ok,
      by_default.empty()
          ? "READ-COMMITTED, autocommit"
          : fmt::format("READ-COMMITTED, autocommit, as rowlock sets it (by default here: {})", by_default)};
}

std::optional<opinion> timeouts(examiner& x) {
  auto const& here = x.known("doctor_session");
  if (auto const too_soon = list_limits(here); !too_soon.empty())
    return opinion{
        verdict::error,
        fmt::format("the server ends what takes longer, although rowlock has switched that off: {}: a "
                    "session's settings get lost",
                    too_soon),
        "Is there a proxy in between? Connect to the server itself."};
  auto const idle = std::chrono::seconds(std::clamp<std::int64_t>(here.number("wait_timeout"), 0, INT32_MAX));
  auto const between = x.options().ttl / 3;
  if (idle <= between)
    return opinion{
        verdict::warning,
        fmt::format("wait_timeout = {}: the server ends a session that is idle for so many seconds, and "
                    "renewals are a third of the ttl apart, {:.1f} s: each needs a new connection",
                    idle.count(), static_cast<double>(between.count()) / 1000),
        fmt::format("wait_timeout = {} or more, or a shorter ttl",
                    std::chrono::ceil<std::chrono::seconds>(between).count() + 1)};
  auto const usual = list_limits(x.known("doctor_settings"));
  return opinion{verdict::ok,
                 fmt::format("the server ends a session that is idle for {} s{}", idle.count(),
                             usual.empty() ? "" : "; rowlock switches off what else is set here: " + usual)};
}

std::optional<opinion> durability(examiner& x) {
  auto const& all = x.known("doctor_settings");
  auto const& flush = all["innodb_flush_log_at_trx_commit"];
  if (flush == "0" || flush == "2")
    return opinion{
        verdict::warning,
        fmt::format(
            "innodb_flush_log_at_trx_commit = {}: after a {} locks of its last second may be gone, and "
            "after each restart none is granted until those would be over",
            flush, flush == "0" ? "crash of the server" : "power cut"),
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the option file"};
  if (auto const& method = all["innodb_flush_method"]; method == "nosync" || method == "littlesync")
    return opinion{
        verdict::error,
        fmt::format("innodb_flush_method = {}: nothing is flushed, and a power cut may spoil the database",
                    method),
        "Take innodb_flush_method out of the option file."};
  if (all.on("log_bin") && all["sync_binlog"] != "1")
    return opinion{
        verdict::warning,
        fmt::format(
            "sync_binlog = {}: after a power cut the server undoes what its binary log has lost, with "
            "locks, and after each restart none is granted until those would be over",
            all["sync_binlog"]),
        "SET GLOBAL sync_binlog = 1, and in the option file"};
  if (all.has("innodb_doublewrite") && !all.on("innodb_doublewrite"))
    return opinion{
        verdict::warning,
        "innodb_doublewrite = OFF: a power cut may leave half a page, unless the file system never does",
        "innodb_doublewrite = ON in the option file"};
  return opinion{verdict::ok, "each commit is flushed"};
}

std::optional<opinion> replicas(examiner& x) {
  auto const semi = semi_synchronous_of(x);
  if (!x.known("doctor_settings").on("log_bin"))
    return opinion{verdict::ok, "no replica is connected, nor can be: there is no binary log"};
  if (semi.wanted && semi.works && semi.replicas > 0)
    return opinion{verdict::ok, fmt::format("commits wait for a replica ({} semi-synchronous), {} ms at most",
                                            semi.replicas, semi.timeout)};
  std::int64_t all = 0;
  try {
    all = count_replicas(x);
  } catch (error const& e) {
    if (e.reason() != errc::access_denied) throw;
    return opinion{verdict::unknown, "needs PROCESS, to see whether replicas are connected",
                   "GRANT PROCESS ON *.*"};
  }
  constexpr auto remedy =
      "Semi-synchronous replication, with a timeout longer than any outage of the replicas; or have fencing "
      "tokens "
      "compared.";
  if (semi.wanted)
    return opinion{
        verdict::warning,
        fmt::format("semi-synchronous replication is wanted but has gone asynchronous ({} connected): a "
                    "failover may forget locks that were granted last, and grant them again",
                    all),
        remedy};
  if (all == 0) return opinion{verdict::ok, "no replica is connected"};
  return opinion{
      verdict::warning,
      fmt::format("{} asynchronous: a failover may forget locks that were granted last, and grant them "
                  "again",
                  all == 1 ? "the replica is" : fmt::format("all {} replicas are", all)),
      remedy};
}

std::optional<opinion> galera(examiner& x) {
  if (!x.known("doctor_session").on("wsrep_on")) return std::nullopt;
  auto const& now = x.known("doctor_status");
  if (now["wsrep_cluster_status"] != "Primary" || !now.on("wsrep_ready"))
    return opinion{verdict::error,
                   fmt::format("this node belongs to no cluster that may decide (wsrep_cluster_status = {}, "
                               "wsrep_ready = {})",
                               now["wsrep_cluster_status"], now["wsrep_ready"]),
                   "Connect to a node of the primary component; see why this one has lost it."};
  return opinion{
      verdict::ok,
      fmt::format("a cluster of {}: lease and unique_insert work across its nodes; row_lock, which would "
                  "lock within one node, is refused",
                  now["wsrep_cluster_size"])};
}

std::optional<opinion> group_replication(examiner& x) {
  if (x.known("doctor_session")["group_replication_single_primary_mode"] != "OFF") return std::nullopt;
  return opinion{verdict::ok,
                 "a group with several primaries (group_replication_single_primary_mode = OFF): lease and "
                 "unique_insert work across its members; row_lock, which would lock within one member, is "
                 "refused, and who waits tries again and again"};
}

std::optional<opinion> tls(examiner& x) {
  auto const& now = x.known("doctor_status");
  auto const& cipher = now["ssl_cipher"];
  return backend::tls(x.session().facts(),
                      cipher.empty() ? "" : fmt::format("{} {}", now["ssl_version"], cipher),
                      "ssl-mode=verify&ssl-ca=PATH in the URL, and a certificate in the server.");
}

std::optional<opinion> index(examiner& x) {
  for (auto const* what : {"locks", "tokens"}) {
    auto const table = x.options().table_prefix + what;
    auto const found = x.table(what);
    if (!found && x.is_missing(what))
      return opinion{verdict::unknown, fmt::format("needs the table {}, which is missing", table)};
    if (!found) return opinion{verdict::unknown, fmt::format("needs a right on the table {}", table)};
    auto const& engine = as_text(found->at(0));
    if (engine != "InnoDB")
      return opinion{
          verdict::error,
          fmt::format("{} is stored by {}, which locks no rows and undoes no transaction", table, engine),
          fmt::format("ALTER TABLE {} ENGINE = InnoDB", table)};
    auto const& type = as_text(found->at(1));
    if (type != "varbinary" && type != "binary")
      return opinion{
          verdict::error,
          fmt::format("{}.name is {}{}: different names may be one lock (letter case, blanks at the end)",
                      table, type, is_null(found->at(2)) ? "" : ", " + as_text(found->at(2))),
          fmt::format("ALTER TABLE {} MODIFY name VARBINARY(255) NOT NULL", table)};
  }
  auto const locks = x.options().table_prefix + "locks";
  auto const remedy =
      fmt::format("ALTER TABLE {} ADD PRIMARY KEY (name); see rowlock migrate validate", locks);
  std::string plan;
  try {
    // The server has the row of a whole unique key in a "const table".
    auto const found = x.ask("doctor_explain");
    for (auto const& cell : found.rows.at(0))
      if (auto const* text = std::get_if<std::string>(&cell)) plan += (plan.empty() ? "" : ", ") + *text;
  } catch (error const& e) {
    if (e.native_code() != 1176) throw;  // there is no such key
    plan = x.words(e);
  }
  if (plan.find("const table") == plan.npos)
    return opinion{verdict::error,
                   fmt::format("a lock's row is not found by a primary key on the name alone: {}", plan),
                   remedy};
  return opinion{verdict::ok, "a lock's row is found by its primary key, names compared byte for byte"};
}

std::span<named_check const> checks() noexcept {
  static constexpr named_check all[] = {{"schema"},
                                        {"grants"},
                                        {"writable", writable},
                                        {"isolation", isolation},
                                        {"timeouts", timeouts},
                                        {"durability", durability},
                                        {"replicas", replicas},
                                        {"galera", galera},
                                        {"group_replication", group_replication},
                                        {"clock"},
                                        {"keepalive"},
                                        {"waiting"},
                                        {"limits"},
                                        {"tls", tls},
                                        {"index", index}};
  return all;
}

}  // namespace rowlock::backend::mysql

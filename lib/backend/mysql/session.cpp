#include "backend/mysql/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <system_error>

#include "backend/mysql/dialect.hpp"
#include "base/never_destroyed.hpp"
#include "base/per_process.hpp"
#include "base/process_end.hpp"

namespace rowlock::backend::mysql {
namespace {

using namespace std::chrono_literals;

// A session's settings, whatever the server's defaults. One text, for one round trip.
// - READ COMMITTED: Connector/C++ itself has just set REPEATABLE READ.
// - A locked row or table is busy after a second. No other timeout ends a statement or a transaction.
// - No limit cuts rows or values, and no transaction begins by itself (completion_type).
// - A statement that looks at a pulse, and then locks rows that have changed since, decides by what it has
//   locked: it is no conflict (innodb_snapshot_isolation).
// MariaDB alone reads "/*M!", MySQL alone "/*!80000". The queries come last: max_execution_time would end
// them, too.
constexpr std::string_view set_up_text =
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SET NAMES utf8mb4;"
    "SET SESSION autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1,"
    " sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',"
    " sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_big_selects = 1"
    " /*!80000 , max_execution_time = 0 */"
    " /*M!100309 , max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = "
    "0,"
    " idle_write_transaction_timeout = 0 */"
    " /*M!110600 , innodb_snapshot_isolation = 0 */;"
    "SHOW VARIABLES WHERE Variable_name IN ('version', 'server_uuid', 'server_uid', 'server_id', 'hostname',"
    " 'port', 'datadir', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', "
    "'group_replication_single_primary_mode');"
    "SELECT database();";

constexpr std::size_t most_rows_kept = 1000;

bool says_commit(std::string_view sql) {
  std::string word(sql.substr(0, std::min(sql.find_first_of("; \n"), sql.size())));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  return word == "COMMIT";
}

// `version`: as "8.0.36" or "10.11.6-MariaDB-1". An unreadable one is not too old.
bool is_too_old(std::string const& version, bool mariadb) {
  std::array<int, 2> number{};
  auto const* at = version.data();
  auto const* const end = at + version.size();
  for (int& part : number) {
    auto const [next, trouble] = std::from_chars(at, end, part);
    if (trouble != std::errc()) return false;
    at = std::min(next + 1, end);
  }
  return number < (mariadb ? std::array{10, 6} : std::array{8, 0});
}

}  // namespace

session::session(std::unique_ptr<channel> c, std::shared_ptr<own_socket> socket, std::string where,
                 boot_time_point deadline)
    : native_(std::move(c)), socket_(std::move(socket)), where_(std::move(where)) {
  if (socket_) socket_->keep_alive();
  set_up(deadline);
}

session::~session() { close(); }

bool session::forked() const noexcept { return epoch_ != base::fork_epoch(); }

// In a forked child the driver would end the session at the server, which the parent still uses.
void session::abandon() noexcept {
  for (auto& [name, one] : prepared_) (void)one.native.release();
  prepared_.clear();
  (void)native_.release();
}

void session::close() noexcept {
  if (!native_) return;
  if (forked()) {
    if (socket_) socket_->close_copies();
    return abandon();
  }
  base::driver_call const now;
  try {
    native_->enter_thread();
    prepared_.clear();
    native_.reset();
  } catch (...) {
    if (socket_) socket_->shut_down();
    abandon();  // a lost descriptor is better than the end of the program
  }
  socket_.reset();
}

session_facts session::facts() const {
  session_facts out;
  if (socket_) socket_->describe(out);
  return out;
}

void session::give_up(std::string const& what, std::string const& why) {
  close();
  throw error(errc::unreachable, fmt::format("{}: {}: {}", where_, what, why), what, "", 0);
}

std::string session::why_ended() const {
  if (socket_ && socket_->overrun()) return "; the server's reply was longer than any that is expected";
  return boot_clock::now() >= deadline_ ? "; no reply came in time" : "";
}

// With wsrep_sync_wait a node that has lost its cluster fails a prepared statement with ER_LOCK_WAIT_TIMEOUT,
// as if a row were locked, also one that waited meanwhile. Only a statement sent as text gets 1047.
std::string session::why_cut_off() {
  if (!galera_) return {};
  try {
    auto const found = native_->run("SHOW SESSION STATUS LIKE 'wsrep_ready'");
    bool const ready = found.rows.empty() || as_text(found.rows[0].at(1)) == "ON";
    return ready ? "" : "this node belongs to no Galera cluster that may decide (wsrep_ready is off)";
  } catch (std::exception const&) {
    return "this node of Galera did not answer when it was asked whether it belongs to a cluster that may "
           "decide (wsrep_ready)";
  }
}

void session::refuse(refusal const& e, stake at_stake, std::string const& what) {
  base::stay_out_of_ended_drivers();
  auto const cut_off = e.native() == 1205 && at_stake != stake::commit ? why_cut_off() : std::string();
  if (!cut_off.empty()) {
    close();
    throw error(errc::unreachable,
                fmt::format("{}: {}: {}; connect to one that does, or name all hosts in the URL", where_,
                            what, cut_off),
                what, e.sqlstate(), e.native());
  }
  bool const over = ends_session(e.native());
  auto const problem = statement_error(e, at_stake, what, where_, over ? why_ended() : "");
  // If this session takes no writes, the next one might reach the new primary.
  if (over || problem.reason() == errc::in_doubt || problem.reason() == errc::unreachable ||
      problem.reason() == errc::read_only)
    close();
  throw problem;
}

void session::set_up(boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("session set-up");
  begin(what, deadline);
  auto const limit = until(deadline, most_early_bytes);
  try {
    mariadb_ = native_->is_mariadb();
    auto const results = native_->run_all(std::string(set_up_text));
    if (results.size() < 5) give_up(what, "the server's replies can't be told apart");
    read_facts(results[3].rows, results[4].rows);
    // On Galera, reads (1) and changes (2) wait for earlier commits of all nodes. Otherwise a renewal or
    // release could miss the row of a take on another node, and report a loss.
    if (galera_) {
      native_->run_all("SET SESSION wsrep_sync_wait = 3");
      if (!why_cut_off().empty()) read_only_ = true;
    }
    // Also of an account that may write all the same: what a replica renews, the primary does not know. [T15]
    if (read_only_) native_->run_all("SET SESSION TRANSACTION READ ONLY");
  } catch (refusal const& e) {
    if (e.native() == 1064)  // ER_PARSE_ERROR
      throw error(errc::invalid_argument,
                  where_ + ": the connection must be opened with CLIENT_MULTI_STATEMENTS", what, e.sqlstate(),
                  e.native());
    refuse(e, stake::nothing, what);
  }
  last_used_ = boot_clock::now();
}

void session::read_facts(row_list const& variables, row_list const& database) {
  std::map<std::string, std::string> facts;
  for (auto const& one : variables) facts[as_text(one.at(0))] = as_text(one.at(1));
  if (is_too_old(facts["version"], mariadb_))
    throw error(
        errc::unsupported,
        fmt::format("{}: {} {} is too old: MySQL 8.0 and MariaDB 10.6 are the oldest that rowlock works on",
                    where_, mariadb_ ? "MariaDB" : "MySQL", facts["version"]));
  auto const on = [&](char const* name) { return facts[name] == "ON" || facts[name] == "1"; };
  // From MariaDB 12 on it is a word.
  auto const& of_server = facts["read_only"];
  read_only_ = (!of_server.empty() && of_server != "OFF" && of_server != "0") || on("super_read_only") ||
               on("innodb_read_only");
  galera_ = on("wsrep_on");
  // Only a server with the plugin has it.
  several_primaries_ = facts["group_replication_single_primary_mode"] == "OFF";
  auto const& name = database.at(0).at(0);
  identity_ = fmt::format("mysql:{}{}:{}:{}:{}:{}:{}", facts["server_uuid"], facts["server_uid"],
                          facts["server_id"], facts["hostname"], facts["port"], facts["datadir"],
                          is_null(name) ? std::string() : as_text(name));
}

void session::begin(std::string const& what, boot_time_point deadline) {
  if (forked())
    throw error(errc::forked, fmt::format("{}: connected before the process was forked", where_), what, "",
                0);
  if (!native_) give_up(what, "the connection was given up");
  base::stay_out_of_ended_drivers();
  // If the session ended while idle (a restarted server), nothing is in doubt.
  if (socket_ && !look_.use() && socket_->hung_up()) give_up(what, "the server ended the session");
  if (boot_clock::now() >= deadline) give_up(what, "no time was left to send it");
  native_->enter_thread();  // this thread might be new to the driver
}

std::optional<wire_watch::scope> session::until(boot_time_point deadline, std::uint64_t most_bytes) {
  deadline_ = deadline;
  if (!socket_) return std::nullopt;
  return std::optional<wire_watch::scope>(std::in_place, base::per_process<wire_watch>(), socket_, deadline,
                                          most_bytes);
}

bool session::alive() {
  if (!usable()) return false;
  look_.forget();
  if (socket_) {
    if (socket_->hung_up()) return false;
    look_.remember();
    return true;
  }
  if (boot_clock::now() - last_used_ < 1s) return true;
  try {
    native_->enter_thread();
    if (native_->ping()) {
      last_used_ = boot_clock::now();
      return true;
    }
  } catch (refusal const&) {
    // Counts as no answer.
  }
  close();
  return false;
}

session::prepared& session::prepare(statement const& s) {
  auto& known = prepared_[s.name];
  if (known.sql == s.sql && (known.native || known.as_text)) return known;
  known = {};
  auto text = mark_parameters(s.sql);
  // MySQL prepares EXPLAIN as a statement without columns, and Connector/C++ then reads none.
  known.as_text = s.sql.starts_with("EXPLAIN");
  try {
    if (!known.as_text) known.native = native_->prepare(text.sql);
  } catch (refusal const& e) {
    if (!is_unpreparable(e.native()) || text.highest > 0) {
      prepared_.erase(s.name);
      refuse(e, stake::nothing, s.name);
    }
    known.as_text = true;
  }
  known.text = std::move(text);
  known.sql = s.sql;
  return known;
}

void session::bind_to(prepared& ready, statement const& s, std::span<value const> parameters) {
  check_parameters(ready.text, parameters, s.name);
  try {
    ready.native->bind(ready.text.order, parameters);
  } catch (refusal const& e) {
    refuse(e, stake::nothing, s.name);
  }
}

result session::run(statement const& s, std::span<value const> parameters, boot_time_point deadline) {
  auto& ready = prepare(s);
  if (ready.native) bind_to(ready, s, parameters);
  if (boot_clock::now() >= deadline) give_up(s.name, "no time was left to send it");
  try {
    if (ready.as_text) return native_->run(s.sql);
    auto out = ready.native->run();
    if (out.rows.size() > most_rows_kept) prepared_.erase(s.name);
    return out;
  } catch (refusal const& e) {
    refuse(e, stake::statement, s.name);
  } catch (std::exception const& e) {  // perhaps no memory, with half the reply read
    close();
    throw error(errc::in_doubt, fmt::format("{}: {}: {}", where_, s.name, e.what()), s.name, "", 0);
  }
}

result session::execute(statement const& s, std::span<value const> parameters, boot_time_point deadline) {
  begin(s.name, deadline);
  auto const limit = until(deadline);
  auto const done = [&](result r) {
    last_used_ = boot_clock::now();
    return r;
  };
  try {
    return done(run(s, parameters, deadline));
  } catch (error const& e) {
    // The server did nothing.
    if (!is_forgotten(e.native_code()) || !usable()) throw;
    prepared_.erase(s.name);
  }
  return done(run(s, parameters, deadline));
}

void session::script(std::string_view sql, boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("script");
  begin(what, deadline);
  auto const limit = until(deadline);
  try {
    // A client that stops or is cut off in a transaction would keep its rows for hours. Outside a transaction
    // the session may be silent.
    bool const begins = sql.starts_with("START TRANSACTION");
    bool const ends = may_not_be_silent_ && (sql == "ROLLBACK" || sql == "COMMIT");
    if (begins) may_not_be_silent_ = true;
    if (ends && galera_) {
      native_->run_all(std::string(sql));  // by itself: see execute_one_by_one()
      native_->run_all("SET SESSION wait_timeout = DEFAULT");
    } else {
      native_->run_all(begins ? fmt::format("SET SESSION wait_timeout = {};{}", longest_silence.count(), sql)
                       : ends ? fmt::format("{};SET SESSION wait_timeout = DEFAULT", sql)
                              : std::string(sql));
    }
    if (ends) may_not_be_silent_ = false;
  } catch (refusal const& e) {
    refuse(e, says_commit(sql) ? stake::commit : stake::statement, what);
  }
  last_used_ = boot_clock::now();
}

// Sent as one text. Only the COMMIT can have taken effect despite an error or a lost reply. A failure leaves
// the transaction open with its rows, for longest_silence at most.
std::vector<result> session::execute_at_once(std::span<step const> steps, boot_time_point deadline) {
  if (galera_) return execute_one_by_one(steps, deadline);
  auto const& what = steps.front().what.name;
  begin(what, deadline);
  auto text = fmt::format("SET SESSION wait_timeout = {};START TRANSACTION", longest_silence.count());
  for (auto const& [s, parameters] : steps) {
    check_parameters(mark_parameters(s.sql), parameters, s.name);
    text += ";\n" + with_literals(s.sql, parameters);
  }
  text += ";COMMIT;SET SESSION wait_timeout = DEFAULT";
  constexpr std::ptrdiff_t before = 2;
  auto const commit = static_cast<std::size_t>(before) + steps.size();
  try {
    auto const limit = until(deadline);
    auto results = native_->run_all(text);
    last_used_ = boot_clock::now();
    if (results.size() != commit + 2) {
      close();
      throw error(errc::in_doubt,
                  fmt::format("{}: {}: the server's replies can't be told apart", where_, what), what, "", 0);
    }
    return {std::make_move_iterator(results.begin() + before),
            std::make_move_iterator(results.begin() + static_cast<std::ptrdiff_t>(commit))};
  } catch (refusal const& e) {
    may_not_be_silent_ = true;
    try {
      refuse(e, e.done_before() < commit ? stake::statement : stake::commit, what);
    } catch (error const&) {
      roll_back(boot_clock::now() + 1s);
      throw;
    }
  } catch (error const&) {
    throw;
  } catch (std::exception const& e) {  // perhaps no memory, with half the reply read
    close();
    throw error(errc::in_doubt, fmt::format("{}: {}: {}", where_, what, e.what()), what, "", 0);
  }
}

// If another node was first, Galera rolls the transaction back. Within a text of several statements the
// server reports this too late, or never: the next statements run without a transaction, and the COMMIT
// reports success. For single statements it reports the truth.
std::vector<result> session::execute_one_by_one(std::span<step const> steps, boot_time_point deadline) {
  std::vector<result> results;
  results.reserve(steps.size());
  script("START TRANSACTION", deadline);
  try {
    for (auto const& [s, parameters] : steps) {
      check_parameters(mark_parameters(s.sql), parameters, s.name);
      begin(s.name, deadline);
      auto const limit = until(deadline);
      try {
        results.push_back(native_->run(with_literals(s.sql, parameters)));  // one, also with a ; in a note
      } catch (refusal const& e) {
        refuse(e, stake::statement, s.name);
      }
    }
    script("COMMIT", deadline);
  } catch (...) {
    roll_back(boot_clock::now() + 1s);
    throw;
  }
  return results;
}

std::string session::cipher(boot_time_point deadline) {
  auto const found = execute({"session_cipher", "SHOW SESSION STATUS LIKE 'Ssl_cipher'"}, {}, deadline);
  return found.rows.empty() ? std::string() : as_text(found.rows[0].at(1));
}

void session::roll_back(boot_time_point deadline) noexcept {
  if (!usable()) return;
  try {
    script("ROLLBACK", deadline);
  } catch (...) {
    close();  // then the server rolls back
  }
}

// Begins a transaction each time: the end of an earlier wait can have ended its own
// (innodb_rollback_on_timeout). Without one the row lock would end with its statement.
result session::wait_once(statement const& s, std::span<value const> parameters, boot_time_point deadline,
                          std::chrono::nanoseconds reply_timeout) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - boot_clock::now());
  bool const brief = left < 1s;
  auto const limit = [&](std::int64_t ms) {
    return mariadb_ ? fmt::format("SET SESSION max_statement_time = {}.{:03}", ms / 1000, ms % 1000)
                    : fmt::format("SET SESSION max_execution_time = {}", ms);
  };
  auto const reply_by = boot_clock::now() + 2s + reply_timeout;
  std::string_view const begin = "START TRANSACTION";
  script(brief ? fmt::format("{};{}", begin, limit(std::max<std::int64_t>(left.count(), 1)))
               : std::string(begin),
         reply_by);
  std::optional<error> refused;
  result got;
  try {
    got = execute(s, parameters, reply_by);
  } catch (error const& e) {
    if (!usable() || !brief) throw;
    refused = e;
  }
  if (brief) {
    try {
      script(limit(0), reply_by);
    } catch (...) {
      close();  // the limit would end later statements
      throw;
    }
  }
  if (refused) throw *refused;
  return got;
}

void session::expect_row_locks() const {
  if (galera_)
    throw error(errc::unsupported,
                where_ + ": Galera (wsrep_on) locks rows only within one node: use lease or unique_insert");
  if (several_primaries_)
    throw error(
        errc::unsupported,
        where_ +
            ": Group Replication with several primaries (group_replication_single_primary_mode = OFF) "
            "locks rows only within one member: use lease or unique_insert");
}

result session::wait_for_row(statement const& s, std::span<value const> parameters, boot_time_point deadline,
                             std::chrono::nanoseconds reply_timeout, std::stop_token stop) {
  expect_row_locks();
  auto const end_transaction = [&] { roll_back(boot_clock::now() + reply_timeout); };
  for (;;) {
    try {
      return wait_once(s, parameters, deadline, reply_timeout);
    } catch (error const& e) {
      end_transaction();
      if (e.reason() != errc::row_locked) {
        if (e.reason() != errc::in_doubt) throw;
        // Without a COMMIT nothing was done. A granted lock ends with the session.
        throw error(errc::unreachable, e.what(), e.statement(), e.sqlstate(), e.native_code());
      }
      if (stop.stop_requested() || boot_clock::now() >= deadline) throw;
    } catch (...) {
      end_transaction();
      throw;
    }
  }
}

}  // namespace rowlock::backend::mysql

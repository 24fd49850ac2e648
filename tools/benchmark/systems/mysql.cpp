// What a program could do on MariaDB and MySQL without rowlock: GET_LOCK, and a lease in a row by libmariadb
// alone.
#include <fmt/format.h>

#include "systems/databases.hpp"
#include "systems/libmariadb.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

/// SELECT GET_LOCK(), SELECT RELEASE_LOCK(): two round trips, and nothing is written.
class get_lock_client : public client {
 public:
  explicit get_lock_client(std::string const& address) : connection_(address) {}
  bool take(std::string const& name, std::stop_token const& stop) override {
    name_ = name;
    // In slices of a second, so that a stop is heard.
    while (!stop.stop_requested())
      if (connection_.ask(fmt::format("SELECT GET_LOCK('{}', 1)", name_)) == "1") return true;
    return false;
  }
  void give_back() override {
    if (connection_.ask(fmt::format("SELECT RELEASE_LOCK('{}')", name_)) != "1")
      throw peer_error("RELEASE_LOCK() said no");
  }

 private:
  my_connection connection_;
  std::string name_;
};

// With the quarantine's condition: the last pulse is of the incarnation that the session knows, and grants.
constexpr char const* bare_take =
    "UPDATE rowlock_locks AS l SET l.token = LAST_INSERT_ID(greatest(l.token + 1, "
    "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)), 1 + @base)), l.owner_host = ?, "
    "l.owner_pid = ?, l.owner_process = ?, l.owner_thread = ?, l.renewals = 0, l.ttl = ?, "
    "l.takeover = 'clock', l.acquired_at = utc_timestamp(6), "
    "l.expires_at = utc_timestamp(6) + INTERVAL 1000 * ? MICROSECOND, l.hard_until = NULL, l.revoked = 0, "
    "l.note = '', l.longest = ?, l.longest_term = ?, l.term = ? WHERE l.name = ? AND l.strategy = 'lease' "
    "AND (l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= utc_timestamp(6))) "
    "AND (SELECT CASE WHEN q.made_by = @here AND (q.made_in = @start OR (q.made_in = 0 "
    "AND @@global.innodb_flush_log_at_trx_commit IN (1, 3) "
    "AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1))) "
    "AND q.safe_from <= utc_timestamp(6) AND q.until > utc_timestamp(6) "
    "AND q.reach >= least(30000 + 0 * l.token, 300000) THEN q.base END "
    "FROM rowlock_pulse AS q ORDER BY q.begun DESC, q.until DESC, q.reach DESC LIMIT 1) = @base";

/// As bare_postgresql_client. InnoDB can't leave the flush of one commit out.
class bare_mysql_client : public client {
 public:
  bare_mysql_client(database const& where, std::string const& address)
      : connection_(configured(where, address)),
        insert_(connection_,
                "INSERT INTO rowlock_locks (name, strategy, token, expires_at) "
                "VALUES (?, 'lease', 1, utc_timestamp(6)) ON DUPLICATE KEY UPDATE name = rowlock_locks.name"),
        take_(connection_, bare_take),
        give_(connection_,
              "UPDATE rowlock_locks SET term = NULL, expires_at = utc_timestamp(6) WHERE name = ? AND term = "
              "?") {}

  bool take(std::string const& name, std::stop_token const&) override {
    term_ = new_term();
    if (name != name_) {
      insert_.execute({name});
      name_ = name;
    }
    if (take_.execute({"host", "4711", term_, "4711", "30000", "30000", "30000", term_, term_, name_}) != 1)
      throw peer_error("somebody else has a lease that nobody competes for");
    if (take_.insert_id() == 0) throw peer_error("there is no token");
    return true;
  }
  void give_back() override {
    if (give_.execute({name_, term_}) != 1) throw peer_error("the lease was not ours");
  }

 private:
  static my_connection configured(database const& where, std::string const& address) {
    grants(where, address);
    my_connection c(address);
    c.know_pulse();
    return c;
  }

  my_connection connection_;
  my_statement insert_;
  my_statement take_;
  my_statement give_;
  std::string name_;
  std::string term_;
};

class mysql_session : public session {
 public:
  using maker = std::function<std::unique_ptr<client>()>;
  explicit mysql_session(maker make) : make_(std::move(make)) {}
  std::unique_ptr<client> new_client() override { return make_(); }

 private:
  maker make_;
};

}  // namespace

void add_mysql(std::vector<system_entry>& all) {
  for (auto const* const id : {"mariadb", "mysql"}) {
    auto const& where = database_of(id);
    all.push_back(
        {"get_lock-" + where.id, "GET_LOCK, " + where.title, where.id, [](std::string const& address) {
           return std::make_unique<mysql_session>(
               [address] { return std::make_unique<get_lock_client>(address); });
         }});
    all.push_back({"bare-" + where.id, "the same UPDATEs, bare, " + where.title, where.id,
                   [&where](std::string const& address) {
                     return std::make_unique<mysql_session>(
                         [&where, address] { return std::make_unique<bare_mysql_client>(where, address); });
                   },
                   [&where](std::string const& address) { migrate(where, address); }});
  }
}

}  // namespace rowlock::bench

// What a program could do on MariaDB and MySQL without rowlock: GET_LOCK, and a lease in a row by libmariadb
// alone.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

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

constexpr char const* bare_take =
    "UPDATE rowlock_locks SET token = LAST_INSERT_ID(greatest(token + 1, timestampdiff(MICROSECOND, "
    "'1970-01-01', "
    "utc_timestamp(6)))), owner_host = ?, owner_pid = ?, owner_process = ?, owner_thread = ?, renewals = 0, "
    "ttl = ?, "
    "takeover = 'clock', acquired_at = utc_timestamp(6), expires_at = utc_timestamp(6) + INTERVAL 1000 * ? "
    "MICROSECOND, hard_until = NULL, revoked = 0, note = '', longest = ?, longest_term = ?, term = ? "
    "WHERE name = ? AND strategy = 'lease' "
    "AND (term IS NULL OR (takeover = 'clock' AND expires_at <= utc_timestamp(6)))";

/// As bare_postgresql_client. InnoDB can't leave the flush of one commit out.
class bare_mysql_client : public client {
 public:
  explicit bare_mysql_client(std::string const& address)
      : connection_(configured(address)),
        insert_(connection_,
                "INSERT INTO rowlock_locks (name, strategy, token, expires_at) "
                "VALUES (?, 'lease', 0, utc_timestamp(6)) ON DUPLICATE KEY UPDATE name = rowlock_locks.name"),
        take_(connection_, bare_take),
        give_(connection_,
              "UPDATE rowlock_locks SET term = NULL, expires_at = utc_timestamp(6) WHERE name = ? AND term = "
              "?") {}

  bool take(std::string const& name, std::stop_token const&) override {
    static std::atomic<unsigned> terms = 0;
    term_ = fmt::format("{:08x}{:08x}0123456789abcdef", ::getpid(), ++terms);
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
  static my_connection configured(std::string const& address) {
    my_connection c(address);
    c.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    return c;
  }

  my_connection connection_;
  my_statement insert_;
  my_statement take_;
  my_statement give_;
  std::string name_;
  std::string term_;
};

template <class Client>
class mysql_session : public session {
 public:
  explicit mysql_session(std::string address) : address_(std::move(address)) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<Client>(address_); }

 private:
  std::string address_;
};

}  // namespace

void add_mysql(std::vector<system_entry>& all) {
  for (auto const* const id : {"mariadb", "mysql"}) {
    auto const& where = database_of(id);
    all.push_back(
        {"get_lock-" + where.id, "GET_LOCK, " + where.title, where.id, [](std::string const& address) {
           return std::make_unique<mysql_session<get_lock_client>>(address);
         }});
    all.push_back({"bare-" + where.id, "the same UPDATEs, bare, " + where.title, where.id,
                   [](std::string const& address) {
                     return std::make_unique<mysql_session<bare_mysql_client>>(address);
                   },
                   [&where](std::string const& address) { migrate(where, address); }});
  }
}

}  // namespace rowlock::bench

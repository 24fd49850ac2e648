#include "load/forgetful.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <regex>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "support/eventually.hpp"

namespace rowlock::test {

namespace {

using namespace std::chrono_literals;

boot_time_point soon() { return boot_clock::now() + 2min; }

using session = std::unique_ptr<backend::connection>;

session session_to(std::string const& address) {
  return source_from_url(address).implementation()->connect(soon());
}

std::int64_t number_from(backend::connection& c, std::string const& sql) {
  return backend::as_int(c.execute({"number", sql}, {}, soon()).rows.at(0).at(0));
}

/// The tables. The longest lease is granted once: a ttl that is raised within the lag is not covered.
void prepare(std::string const& address, std::string const& schema, forgetful::options const& o) {
  migrator(source_from_url(address)).up();
  auto const c = session_to(address);
  if (o.longest != 0ms) {
    lock_manager m(source_from_url(address));
    if (!m.make_mutex("longest", {.ttl = o.longest}).try_acquire())
      throw std::runtime_error("a new database grants nothing");
  }
  c->script("CREATE TABLE " + schema + "counters (name VARCHAR(20) PRIMARY KEY, token BIGINT NOT NULL)",
            soon());
  std::string rows;
  for (int n = 0; n < o.names; ++n) rows += fmt::format("{}('n{}', 0)", n == 0 ? "" : ", ", n);
  c->script("INSERT INTO " + schema + "counters VALUES " + rows, soon());
}

constexpr auto pulse_on_postgresql = R"(
  INSERT INTO public.rowlock_pulse (safe_from, reach, until, begun, base)
  VALUES (clock_timestamp(), 300000, 'infinity', '-infinity', 0))";
constexpr auto pulse_on_mysql = R"(
  INSERT INTO rowlock_pulse (begun, until, reach, id, safe_from, base, made_by, made_in)
  SELECT max(q.begun) + INTERVAL 1 MICROSECOND, utc_timestamp(6) + INTERVAL 1 HOUR, 300000, 0, utc_timestamp(6), 0,
    @rowlock_here, @rowlock_start
  FROM rowlock_pulse AS q)";

/// What all have in common: a session to the server that came back, and its dialect.
class with_session : public forgetful {
 public:
  std::int64_t number(std::string const& sql) override { return number_from(*back_, sql); }
  void pulse_at_once() override { back_->script(postgresql_ ? pulse_on_postgresql : pulse_on_mysql, soon()); }

 protected:
  explicit with_session(bool postgresql) : postgresql_(postgresql) {}
  session back_;

 private:
  bool postgresql_;
};

std::string field(std::string const& conninfo, std::string const& key) {
  std::smatch m;
  std::regex_search(conninfo, m, std::regex(key + "=(\\S+)"));
  return m[1];
}

class pair_postgresql final : public with_session {
 public:
  explicit pair_postgresql(options const& o) : with_session(true) {
    prepare(primary_.address(), "public.", o);
    standby_.emplace(server_kind::postgresql,
                     database_server::options{.movable_clock = o.behind, .standby_of = &primary_});
    if (o.behind) standby_->set_clock(-30s);
  }
  std::string address() const override {
    return fmt::format(
        "host=127.0.0.1,127.0.0.1 port={},{} dbname=postgres user=rowlock password={} "
        "target_session_attrs=read-write",
        field(primary_.address(), "port"), field(standby_->address(), "port"),
        field(primary_.address(), "password"));
  }
  std::vector<std::string> addresses() const override { return {address()}; }
  void lag() override {
    back_ = session_to(standby_->address());
    back_->script("ALTER SYSTEM SET primary_conninfo = ''", soon());
    back_->script("SELECT pg_reload_conf()", soon());
    if (!eventually([&] { return number("SELECT count(*) FROM pg_stat_wal_receiver") == 0; }))
      throw std::runtime_error("the standby still follows");
  }
  void kill() override { primary_.kill(); }
  void come_back() override {
    back_->script("SELECT pg_promote()", soon());
    back_ = session_to(standby_->address());
  }

 private:
  database_server primary_{
      server_kind::postgresql,
      {.max_connections = 300, .settings = {"wal_level = replica", "max_wal_senders = 4"}}};
  std::optional<database_server> standby_;
};

/// Flushed commits or not: their pulses differ (made_in).
database_server::options with_log(int id, unsigned seed, bool movable_clock) {
  return {.durable = seed % 2 == 0,
          .max_connections = 300,
          .movable_clock = movable_clock,
          .settings = {"log_bin = binlog", fmt::format("sync_binlog = {}", seed % 2 == 0 ? 1 : 0),
                       fmt::format("server_id = {}", id)}};
}

class pair_mysql final : public with_session {
 public:
  pair_mysql(server_kind kind, options const& o)
      : with_session(false),
        maria_(kind == server_kind::mariadb),
        primary_(kind, with_log(11, o.seed, false)),
        replica_(kind, with_log(12, o.seed, o.behind)) {
    std::smatch of, there;
    std::regex const url("mysql://([^:]*):([^@]*)@([^:]*):([0-9]*)/(.*)");
    auto const first = primary_.address(), second = replica_.address();
    if (!std::regex_match(first, of, url) || !std::regex_match(second, there, url))
      throw std::runtime_error("not a URL of the tests' servers");
    address_ = fmt::format("mysql://{}:{}@{}:{},{}:{}/{}", of.str(1), of.str(2), of.str(3), of.str(4),
                           there.str(3), there.str(4), of.str(5));
    replica_address_ =
        fmt::format("mysql://{}:{}@{}:{}/{}", of.str(1), of.str(2), there.str(3), there.str(4), there.str(5));
    // MySQL has logged how its accounts were made.
    if (!maria_) session_to(first)->script("RESET BINARY LOGS AND GTIDS", soon());
    if (o.behind) replica_.set_clock(-30s);
    // One password for both.
    auto const c = session_to(second);
    c->script(fmt::format("SET SESSION sql_log_bin = 0; ALTER USER 'rowlock'@'%' IDENTIFIED BY '{}'; SET "
                          "SESSION sql_log_bin = 1",
                          of.str(2)),
              soon());
    c->script(maria_
                  ? fmt::format(
                        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{}', "
                        "MASTER_PASSWORD = '{}', MASTER_USE_GTID = no; START SLAVE; SET GLOBAL read_only = 1",
                        of.str(3), of.str(4), of.str(1), of.str(2))
                  : fmt::format(
                        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = "
                        "'{}', SOURCE_PASSWORD = '{}', GET_SOURCE_PUBLIC_KEY = 1; START REPLICA; SET GLOBAL "
                        "super_read_only = 1",
                        of.str(3), of.str(4), of.str(1), of.str(2)),
              soon());
    prepare(first, "", o);
    if (!eventually([&] {
          try {
            return number_from(*c, "SELECT count(*) FROM counters") == o.names;
          } catch (error const&) {
            return false;  // There is no such table yet.
          }
        }))
      throw std::runtime_error("the replica does not follow: " + replica_.log());
  }
  std::string address() const override { return address_; }
  std::vector<std::string> addresses() const override { return {primary_.address(), replica_address_}; }
  void lag() override {
    back_ = session_to(replica_address_);
    back_->script(maria_ ? "STOP SLAVE IO_THREAD" : "STOP REPLICA IO_THREAD", soon());
  }
  void kill() override { primary_.kill(); }
  void come_back() override {
    back_->script(maria_ ? "STOP SLAVE; SET GLOBAL read_only = 0"
                         : "STOP REPLICA; SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0",
                  soon());
    back_ = session_to(replica_address_);  // The former one does not write.
  }

 private:
  bool maria_;
  database_server primary_, replica_;
  std::string address_, replica_address_;
};

/// The clients' locks tell their trust (on_trust), so they are flushed also with flush=off. A trigger takes
/// that back.
constexpr auto unflushed_locks = R"(
  CREATE FUNCTION public.unflushed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_catalog.set_config('synchronous_commit', 'off', true);
    RETURN NULL;
  END $$;
  CREATE TRIGGER unflushed AFTER INSERT OR UPDATE ON public.rowlock_locks
  FOR EACH STATEMENT EXECUTE FUNCTION public.unflushed())";

database_server::options unflushed(server_kind kind, forgetful::options const& o) {
  std::vector<std::string> settings{"innodb_flush_log_at_trx_commit = 0",
                                    fmt::format("innodb_flush_log_at_timeout = {}", o.lazy ? 3 : 1)};
  // Otherwise a thread writes the log as soon as there is something, and the killed server has lost nothing.
  if (kind == server_kind::mysql) settings.emplace_back("innodb_log_writer_threads = OFF");
  if (kind == server_kind::postgresql)
    settings = {"synchronous_commit = off", "wal_writer_delay = 10s", "wal_writer_flush_after = 1GB",
                "wal_buffers = 16MB"};
  return {.max_connections = 300, .movable_clock = o.behind, .settings = settings};
}

class crash final : public with_session {
 public:
  crash(server_kind kind, options const& o)
      : with_session(kind == server_kind::postgresql),
        kind_(kind),
        behind_(o.behind),
        server_(kind, unflushed(kind, o)) {
    prepare(server_.address(), kind == server_kind::postgresql ? "public." : "", o);
    if (kind == server_kind::postgresql) session_to(server_.address())->script(unflushed_locks, soon());
  }
  std::string address() const override { return server_.address(); }
  std::vector<std::string> addresses() const override { return {server_.address()}; }
  void lag() override {
    // MySQL and MariaDB write their log once a second.
    if (kind_ == server_kind::postgresql) session_to(server_.address())->script("CHECKPOINT", soon());
  }
  void kill() override { server_.kill(); }
  void come_back() override {
    if (behind_) server_.set_clock(-30s);
    server_.restart();
    back_ = session_to(server_.address());
  }

 private:
  server_kind kind_;
  bool behind_;
  database_server server_;
};

constexpr std::array<std::pair<char const*, server_kind>, 3> databases{
    {{"postgresql", server_kind::postgresql},
     {"mariadb", server_kind::mariadb},
     {"mysql", server_kind::mysql}}};

}  // namespace

std::vector<std::string> forgetful::kinds() {
  std::vector<std::string> all;
  for (auto const& [name, kind] : databases)
    all.insert(all.end(), {fmt::format("pair-{}", name), fmt::format("crash-{}", name)});
  return all;
}

std::unique_ptr<forgetful> make_forgetful(std::string const& kind, forgetful::options const& o) {
  // In /dev/shm MariaDB maps its log: then the killed server has lost nothing.
  if (kind == "crash-mariadb") ::setenv("TMPDIR", "/var/tmp", 0);
  for (auto const& [name, database] : databases) {
    if (kind == fmt::format("crash-{}", name)) return std::make_unique<crash>(database, o);
    if (kind != fmt::format("pair-{}", name)) continue;
    if (database == server_kind::postgresql) return std::make_unique<pair_postgresql>(o);
    return std::make_unique<pair_mysql>(database, o);
  }
  throw std::invalid_argument("no such kind: " + kind);
}

}  // namespace rowlock::test

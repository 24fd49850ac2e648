#include "migrate/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "base/text.hpp"

namespace rowlock::migrate {
namespace {

using namespace std::chrono_literals;

// The least time for a reply, however short the timeout, so that a running statement is not cut off. A busy
// server can take seconds to make a table.
constexpr auto shortest_reply = 30s;
constexpr std::chrono::milliseconds longest_timeout = std::chrono::hours(24 * 366);  // a clock can add it
constexpr std::chrono::milliseconds first_wait = 50ms;
constexpr std::chrono::milliseconds longest_wait = 1s;

std::chrono::milliseconds back_off(int attempt) {
  thread_local std::minstd_rand random{std::random_device{}()};
  auto const longest = std::min(first_wait * (1 << std::min(attempt, 10)), longest_wait);
  return std::chrono::milliseconds{
      std::uniform_int_distribution<std::int64_t>{longest.count() / 2, longest.count()}(random)};
}

}  // namespace

session::session(backend::source& source, migrator_options const& options, bool make)
    : source_(source),
      options_(options),
      tables_(backend::table_names::of(source.sql(), options.schema, options.table_prefix)),
      statements_(source.sql(), tables_),
      deadline_(boot_clock::now() + std::min<std::chrono::milliseconds>(options.timeout, longest_timeout)),
      make_(make) {}

session::~session() = default;

backend::result session::run(std::string_view name, std::initializer_list<backend::value> parameters) {
  return connection_->execute(statements_.at(name), {parameters.begin(), parameters.size()},
                              reply_deadline());
}

void session::script(std::string_view sql) { connection_->script(sql, reply_deadline()); }

void session::report(std::string_view message) const {
  if (options_.progress) options_.progress(message);
}

void session::read(std::function<void()> const& body) {
  transaction(mode::reading, [&](bool) { body(); });
}

void session::write(std::function<void(bool)> const& body) { transaction(mode::writing, body); }

void session::transaction(mode m, std::function<void(bool)> const& body) {
  bool after_doubt = false;
  for (int tries = 0;; ++tries) {
    auto at = progress::begin;
    try {
      return attempt(m, body, after_doubt, at);
    } catch (refusal const&) {
      rollback();
      throw;
    } catch (error const& e) {
      if (at == progress::commit) after_doubt = e.reason() == errc::in_doubt;
      rollback();
      if (!worth_another_try(e, m)) throw;
      if (boot_clock::now() >= deadline_) give_up(e, at);
      wait_before_try(tries, e);
    } catch (...) {
      rollback();
      throw;
    }
  }
}

void session::attempt(mode m, std::function<void(bool)> const& body, bool after_doubt, progress& at) {
  connect();
  script(statements_.at(m == mode::reading ? "migrate_begin_read" : "migrate_begin").sql);
  if (m == mode::writing) enter();
  at = progress::body;
  body(after_doubt);
  at = progress::commit;
  script("COMMIT");
}

void session::connect() {
  if (connection_ && connection_->usable()) return;
  connection_.reset();
  if (make_) source_.create_if_missing();
  // A silent server has less time than a transaction in the way: the operator would see no reason for the
  // wait.
  connection_ = source_.connect(boot_clock::now() + shortest_reply);
  connected_before_ = true;
  if (!tables_.schema.empty()) return;
  // Without a named schema, the tables' schema is found once. Each later statement names it. [C12]
  auto const found = connection_->find_schema(tables_.prefix + "meta", true, reply_deadline());
  if (!found)
    throw refusal(
        errc::schema_missing,
        fmt::format(
            "{}: the search path leads to no schema that this role may use: say which one with --schema",
            source_.describe()));
  statements_.settle(*found);
  tables_ = statements_.tables();
}

void session::enter() {
  auto const entered = run("migrate_enter", {tables_.schema, options_.table_prefix});
  if (backend::as_int(entered.rows.at(0).at(0)) == 0)
    throw error(errc::row_locked, "another process is migrating the same tables");
}

void session::rollback() noexcept {
  if (!connection_) return;
  try {
    if (connection_->usable()) return script(dialect().abandon_migration);
  } catch (...) {
    // The server rolls back when the connection ends.
  }
  connection_.reset();
}

boot_time_point session::reply_deadline() const {
  return std::max(deadline_, boot_clock::now() + shortest_reply);
}

bool session::worth_another_try(error const& e, mode m) const {
  switch (e.reason()) {
    case errc::row_locked:
    case errc::conflict:
    case errc::too_many_connections:
    case errc::in_doubt:
      return true;
    case errc::unreachable:
      return connected_before_;  // else probably a wrong address
    default:
      break;
  }
  auto const& its = dialect().migrating;
  return m == mode::reading ? its.torn_look(e) : its.made_by_another(e);
}

void session::wait_before_try(int attempt, error const& e) {
  if (!std::exchange(waiting_told_, true)) report("waiting: " + base::plain_message(e));
  std::this_thread::sleep_for(
      std::min<std::chrono::nanoseconds>(back_off(attempt), std::max(0ns, deadline_ - boot_clock::now())));
}

void session::give_up(error const& e, progress at) {
  auto message = fmt::format("gave up after {} ms: {}", options_.timeout.count(), base::plain_message(e));
  if (e.reason() == errc::row_locked) message += in_the_way();
  if (e.reason() == errc::in_doubt && at == progress::commit)
    message += "; whether the last step was applied could not be found out: run `rowlock migrate status`";
  throw error(e.reason(), message, e.statement(), e.sqlstate(), e.native_code());
}

std::string session::in_the_way() {
  std::string out;
  try {
    connect();
    for (auto const& row : run("migrate_in_the_way", {tables_.schema, options_.table_prefix}).rows)
      out += fmt::format(
          "{} server process {} (role '{}', application '{}', {}, its transaction is {} s old)",
          out.empty() ? "; in the way:" : ",", backend::as_int(row.at(0)), backend::as_text(row.at(1)),
          backend::as_text(row.at(2)), backend::as_text(row.at(3)), backend::as_int(row.at(4)));
  } catch (error const&) {
    // The message is useful without it.
  }
  return out.empty()
             ? fmt::format("; another process has a transaction open on {}: end it, or try again later",
                           source_.describe())
             : out + ": end it, or try again later";
}

}  // namespace rowlock::migrate

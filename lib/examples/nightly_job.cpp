// A job that many hosts start at the same time, and that is to run once a night (the password is in
// MYSQL_PWD):
//
//   nightly_job HOST:PORT USER DATABASE NIGHT
//
//   CREATE TABLE runs (night varchar(20) NOT NULL, token bigint NOT NULL, finished datetime);
#include <cppconn/connection.h>
#include <cppconn/prepared_statement.h>
#include <cppconn/statement.h>
#include <mysql_driver.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/mysql_transaction.hpp>
#include <string>

namespace {

using namespace std::chrono_literals;

void run(sql::Connection& c, std::string const& sql) {
  std::unique_ptr<sql::Statement> const s{c.createStatement()};
  s->execute(sql);
}

/// Writes down that this night's run has begun, and locks the night, both or neither: whoever comes later
/// finds it locked. Like a unique key, but the lock of a host that died while it ran ends after `longest`.
/// @return nothing if it runs, or has run, elsewhere
std::optional<rowlock::detached_lock> begin_run(rowlock::lock_manager& manager, sql::Connection& c,
                                                std::string const& night, std::chrono::milliseconds longest) {
  rowlock::mysql::transaction tx{manager, c};
  for (;;) {
    try {
      run(c, "START TRANSACTION");
      auto mine = tx.insert("nightly " + night, longest, "nightly report");
      if (mine) {
        std::unique_ptr<sql::PreparedStatement> const s{
            c.prepareStatement("INSERT INTO runs (night, token) VALUES (?, ?)")};
        s->setString(1, night);
        s->setInt64(2, mine->token.value);
        s->execute();
      }
      rowlock::mysql::execute_commit(c);  // not c.commit(), which hides that it failed
      return mine;
    } catch (rowlock::error const& e) {
      run(c, "ROLLBACK");
      // A COMMIT in doubt can't just be repeated: the night may be locked, by us.
      if (!e.transaction_retryable()) throw;
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) return 64;
  std::string const host = argv[1], user = argv[2], database = argv[3], night = argv[4];
  char const* const password = std::getenv("MYSQL_PWD");
  std::unique_ptr<sql::Connection> const own{sql::mysql::get_driver_instance()->connect(
      "tcp://" + host + "/" + database, user, password != nullptr ? password : "")};
  rowlock::lock_manager manager{rowlock::mysql::source{"mysql://" + user + "@" + host + "/" + database}};

  auto const mine = begin_run(manager, *own, night, 20h);
  if (!mine) {
    std::puts("it runs elsewhere, or has run");
    return 0;
  }
  std::puts("it runs here");  // The work. If it fails, let another host try: manager.release(*mine)
  run(*own, "UPDATE runs SET finished = UTC_TIMESTAMP() WHERE token = " + std::to_string(mine->token.value));
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "nightly_job: %s\n", e.what());
  return 1;
}

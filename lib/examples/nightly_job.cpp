// A job that many hosts start at the same time, and that must run once a night. The password is in MYSQL_PWD.
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
#include <functional>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/mysql_transaction.hpp>
#include <string>

namespace {

using namespace std::chrono_literals;

using connector = std::function<std::unique_ptr<sql::Connection>()>;

void run(sql::Connection& c, std::string const& sql) {
  std::unique_ptr<sql::Statement> const s{c.createStatement()};
  s->execute(sql);
}

/// Records that this night's run has begun, and locks the night, both or neither. A later host finds it
/// locked. Like a unique key, but the lock of a host that died while it ran ends after `longest`.
/// @return nothing if it runs, or has run, elsewhere
std::optional<rowlock::detached_lock> begin_run(rowlock::lock_manager& manager, connector const& connect,
                                                std::string const& night, std::chrono::milliseconds longest) {
  for (;;) {
    auto const own = connect();  // what is not committed ends with it
    rowlock::mysql::transaction tx{manager, *own};
    try {
      run(*own, "START TRANSACTION");
      auto mine = tx.insert("nightly " + night, longest, "nightly report");
      if (mine) {
        std::unique_ptr<sql::PreparedStatement> const s{
            own->prepareStatement("INSERT INTO runs (night, token) VALUES (?, ?)")};
        s->setString(1, night);
        s->setInt64(2, mine->token.value);
        s->execute();
      }
      rowlock::mysql::execute_commit(*own);  // not own->commit(), which hides that it failed
      return mine;
    } catch (rowlock::error const& e) {
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
  auto const connect = [&] {
    return std::unique_ptr<sql::Connection>{sql::mysql::get_driver_instance()->connect(
        "tcp://" + host + "/" + database, user, password != nullptr ? password : "")};
  };
  rowlock::lock_manager manager{rowlock::mysql::source{"mysql://" + user + "@" + host + "/" + database}};

  auto const mine = begin_run(manager, connect, night, 20h);
  if (!mine) {
    std::puts("it runs elsewhere, or has run");
    return 0;
  }
  std::puts("it runs here");  // The work. If it fails, let another host try: manager.release(*mine)
  try {
    run(*connect(),
        "UPDATE runs SET finished = UTC_TIMESTAMP() WHERE token = " + std::to_string(mine->token.value));
    return 0;
  } catch (sql::SQLException const& e) {
    std::fprintf(stderr, "nightly_job: it has run, but that may not be written down: %s\n", e.what());
    return 1;
  }
} catch (rowlock::error const& e) {
  bool const in_doubt = e.reason() == rowlock::errc::in_doubt;
  std::fprintf(stderr, "nightly_job: it does not run%s: %s\n", in_doubt ? ", but may be locked" : "",
               e.what());
  return 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "nightly_job: it does not run: %s\n", e.what());
  return 1;
}

#pragma once
#include <mysql.h>

#include <memory>
#include <string>
#include <vector>

namespace rowlock::bench {

struct end_of_libmariadb {
  void operator()(MYSQL* c) const noexcept { ::mysql_close(c); }
  void operator()(MYSQL_STMT* s) const noexcept { ::mysql_stmt_close(s); }
};

/// A connection by libmariadb alone. What fails is a peer_error.
class my_connection {
 public:
  explicit my_connection(std::string const& url);
  void run(std::string const& sql);
  /// Isolation as in rowlock's sessions, and @here, @start and @base, by which a take looks at the pulse.
  void know_pulse();
  /// As run(), and the only value of the only row.
  std::string ask(std::string const& sql);
  MYSQL* get() const noexcept { return connection_.get(); }

 private:
  std::unique_ptr<MYSQL, end_of_libmariadb> connection_;
};

/// A prepared statement whose values are texts.
class my_statement {
 public:
  my_statement(my_connection&, std::string const& sql);
  /// @return how many rows it met
  unsigned long long execute(std::vector<std::string> const& values);
  /// What LAST_INSERT_ID(...) said in it.
  unsigned long long insert_id() const { return ::mysql_stmt_insert_id(statement_.get()); }

 private:
  std::unique_ptr<MYSQL_STMT, end_of_libmariadb> statement_;
};

}  // namespace rowlock::bench

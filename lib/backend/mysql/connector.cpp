#include "backend/mysql/connector.hpp"

#include <cppconn/metadata.h>
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "backend/caller_connection.hpp"
#include "backend/mysql/values.hpp"

namespace rowlock::backend::mysql {
namespace {

constexpr std::string_view end_mark = "rowlock: end of script";

std::string with_end_mark(std::string_view sql) {
  auto const end = sql.find_last_not_of(" \t\r\n");
  bool const ended = end != sql.npos && sql[end] == ';';
  return fmt::format("{}\n{}SELECT '{}'", sql, ended ? "" : ";", end_mark);
}

bool is_end_mark(row_list const& rows) {
  return rows.size() == 1 && rows[0].size() == 1 && rows[0][0] == value(std::string(end_mark));
}

template <class F>
auto translated(F const& call) {
  try {
    return call();
  } catch (sql::SQLException const& e) {
    throw as_refusal(e);
  }
}

class connector_statement final : public prepared_statement {
 public:
  connector_statement(native_prepared n, MYSQL* below) : native_(std::move(n)), below_(below) {}

  void bind(std::span<std::size_t const> order, std::span<value const> values) override {
    translated([&] { mysql::bind(*native_, order, values); });
  }
  result run() override {
    return translated([&] {
      result out;
      // Only executeUpdate() tells the affected rows, and only executeQuery() returns rows.
      if (native_->getMetaData()->getColumnCount() == 0) {
        out.affected = native_->executeUpdate();
        if (below_ != nullptr) out.number = told_number(::mysql_insert_id(below_));
      } else {
        native_rows const rows(native_->executeQuery());
        reply_size size;
        out.rows = decode(*rows, size);
      }
      // Otherwise the connector keeps its copies: megabytes for ten thousand locks.
      native_->clearParameters();
      return out;
    });
  }

 private:
  native_prepared native_;
  MYSQL* below_;
};

result reply_to(sql::Statement& text, bool has_rows, reply_size& so_far) {
  result out;
  if (has_rows) {
    native_rows const rows(text.getResultSet());
    out.rows = decode(*rows, so_far);
  } else {
    out.affected = static_cast<std::int64_t>(text.getUpdateCount());
  }
  return out;
}

result run_text(sql::Connection& c, std::string const& sql) {
  return translated([&] {
    native_statement const text(c.createStatement());
    bool const has_rows = text->execute(sql);
    reply_size size;
    return reply_to(*text, has_rows, size);
  });
}

bool leads_to_mariadb(sql::Connection& c) {
  return translated([&] {
    return c.getMetaData()->getDatabaseProductVersion().asStdString().find("MariaDB") != std::string::npos;
  });
}

class connector_channel final : public channel {
 public:
  connector_channel(native_connection n, MYSQL* below) : native_(std::move(n)), below_(below) {}

  void enter_thread() override { (void)driver(); }
  bool is_mariadb() override { return leads_to_mariadb(*native_); }
  bool ping() override {
    return translated([&] { return native_->isValid(); });
  }
  std::unique_ptr<prepared_statement> prepare(std::string const& sql) override {
    return translated([&] {
      return std::make_unique<connector_statement>(native_prepared(native_->prepareStatement(sql)), below_);
    });
  }
  result run(std::string const& sql) override { return run_text(*native_, sql); }
  std::vector<result> run_all(std::string const& sql) override {
    std::vector<result> results;
    try {
      translated([&] { run_all_into(results, sql); });
      return results;
    } catch (refusal& e) {
      throw e.after(results.size());
    }
  }

 private:
  // Reads every reply: any error is thrown, and none stays for the next call. The connector does not
  // distinguish "no more replies" from "a statement without rows". So several statements end with one of
  // rowlock's, and add_result() bounds the replies before that.
  void run_all_into(std::vector<result>& results, std::string const& sql) {
    native_statement const text(native_->createStatement());
    bool const several = sql.find(';') != sql.npos;
    reply_size size;
    for (bool has_rows = text->execute(several ? with_end_mark(sql) : sql);;
         has_rows = text->getMoreResults()) {
      results.push_back(reply_to(*text, has_rows, size));
      if (!several) return;
      if (is_end_mark(results.back().rows)) return results.pop_back();
      if (!size.add_result())
        throw malformed(
            "the server did not answer each of several statements that were sent as one text; let a proxy in "
            "between pass on such texts, or connect to the server itself");
    }
  }

  native_connection native_;
  MYSQL* below_;  ///< part of native_
};

class borrowed_connection final : public borrowed_channel {
 public:
  explicit borrowed_connection(sql::Connection& c) : native_(c) { (void)driver(); }

  bool is_mariadb() override { return leads_to_mariadb(native_); }
  // The connector does not tell. MariaDB has a variable. On MySQL a savepoint outside of a transaction is
  // gone at once (1305, ER_SP_DOES_NOT_EXIST).
  bool in_transaction() override {
    if (is_mariadb()) return as_int(run("SELECT @@in_transaction OR @@autocommit = 0").rows.at(0).at(0)) != 0;
    run(fmt::format("SAVEPOINT {}", savepoint));
    try {
      run(fmt::format("RELEASE SAVEPOINT {}", savepoint));
      return true;
    } catch (refusal const& e) {
      if (e.native() == 1305) return false;
      throw;
    }
  }
  result run(std::string const& sql) override { return run_text(native_, sql); }

 private:
  sql::Connection& native_;
};

}  // namespace

std::unique_ptr<borrowed_channel> borrowed_channel_over(sql::Connection& c) {
  return std::make_unique<borrowed_connection>(c);
}

refusal as_refusal(sql::SQLException const& e) { return {e.getErrorCode(), e.getSQLState(), e.what()}; }

std::unique_ptr<channel> channel_over(native_connection n, MYSQL* below) {
  return std::make_unique<connector_channel>(std::move(n), below);
}

}  // namespace rowlock::backend::mysql

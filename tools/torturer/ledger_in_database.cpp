// By SOCI, so that there is one text for all databases.
#include "ledger_in_database.hpp"

#include <fmt/format.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/postgresql/soci-postgresql.h>
#include <soci/soci.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <uriparser/Uri.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <rowlock/soci_transaction.hpp>
#include <stdexcept>
#include <string>

namespace rowlock::torture {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";
constexpr std::string_view mysql_scheme = "mysql:";

bool is_sqlite(std::string const& db) { return db.starts_with(sqlite_scheme); }

std::string text_of(UriTextRangeA const& range) {
  if (range.first == nullptr) return {};
  std::string text(range.first, range.afterLast);
  text.resize(static_cast<std::size_t>(::uriUnescapeInPlaceA(text.data()) - text.data()));
  return text;
}

/// mysql://USER:PASSWORD@HOST:PORT/DATABASE, in SOCI's words.
std::string mysql_string(std::string const& url) {
  UriUriA uri;
  if (::uriParseSingleUriA(&uri, url.c_str(), nullptr) != URI_SUCCESS)
    throw std::runtime_error("--db is no URL");  // it may have a password: not repeated
  std::string said;
  auto const say = [&](char const* key, std::string const& value) {
    if (value.find_first_of(" \t\"'") != value.npos)
      throw std::runtime_error(fmt::format("SOCI can't be told a {} with blanks or quotation marks", key));
    if (!value.empty()) said += fmt::format("{}={} ", key, value);
  };
  auto const user = text_of(uri.userInfo);
  auto const colon = user.find(':');
  auto const host = text_of(uri.hostText);
  auto const port = text_of(uri.portText);
  auto const database = uri.pathHead != nullptr ? text_of(uri.pathHead->text) : std::string();
  ::uriFreeUriMembersA(&uri);
  say("host", host);
  say("port", port);
  say("user", user.substr(0, colon));
  if (colon != user.npos) say("password", user.substr(colon + 1));
  say("db", database);
  return said;
}

std::unique_ptr<::soci::session> connect(std::string const& db) {
  if (is_sqlite(db)) {
    auto const path = db.substr(sqlite_scheme.size());
    auto s = std::make_unique<::soci::session>(::soci::sqlite3, path.substr(0, path.find('?')));
    *s << "PRAGMA busy_timeout = 10000";
    return s;
  }
  if (db.starts_with(mysql_scheme)) return std::make_unique<::soci::session>(::soci::mysql, mysql_string(db));
  return std::make_unique<::soci::session>(::soci::postgresql, db);
}

class adds final : public section {
 public:
  adds(std::string db, lock_manager& m, bool requires_it)
      : db_(std::move(db)), manager_(m), requires_(requires_it) {}

  // A section that fails has added nothing, or what COMMIT did not tell: the table knows.
  void run(held_lock& lock, std::uint32_t name, std::function<void()> const& think) override try {
    if (!session_) session_ = connect(db_);
    auto const number = static_cast<int>(name);
    long long total = 0;
    *session_ << "SELECT total FROM torture_sums WHERE name = " << number, ::soci::into(total);
    think();
    *session_ << (is_sqlite(db_) ? "BEGIN IMMEDIATE" : "BEGIN");
    if (requires_) soci::transaction(manager_, *session_).require(lock);
    *session_ << "UPDATE torture_sums SET total = " << total + 1
              << ", added = added + 1 WHERE name = " << number;
    if (requires_)
      soci::execute_commit(*session_);
    else
      *session_ << "COMMIT";
  } catch (std::exception const&) {
    session_.reset();
  }

 private:
  std::string db_;
  lock_manager& manager_;
  bool requires_;
  std::unique_ptr<::soci::session> session_;
};

class ledger_in_database final : public ledger {
 public:
  explicit ledger_in_database(options const& o) : db_(o.db), requires_(o.what == workload::guarded_set) {
    auto const s = connect(db_);
    try {
      *s << "DROP TABLE torture_sums";  // of a run that was killed; IF EXISTS has PostgreSQL's client print a
                                        // notice
    } catch (::soci::soci_error const&) {  // as it should be
    }
    *s << "CREATE TABLE torture_sums (name INTEGER PRIMARY KEY, total BIGINT NOT NULL, added BIGINT NOT "
          "NULL)";
    for (int i = 0; i < o.names; ++i) *s << "INSERT INTO torture_sums VALUES (" << i << ", 0, 0)";
  }
  ledger_in_database(ledger_in_database const&) = delete;
  ledger_in_database& operator=(ledger_in_database const&) = delete;
  ~ledger_in_database() override {
    try {
      *connect(db_) << "DROP TABLE torture_sums";
    } catch (std::exception const& e) {
      fmt::print(stderr, "the table torture_sums is still there: {}\n", e.what());
    }
  }

  std::unique_ptr<section> open(std::string const& db, lock_manager& m) override {
    return std::make_unique<adds>(db, m, requires_);
  }
  sums read() override {
    auto const s = connect(db_);
    long long added = 0;
    long long total = 0;
    // The numbers of a sum are decimal in some databases.
    *s << "SELECT CAST(sum(added) AS " << integer() << "), CAST(sum(total) AS " << integer()
       << ") FROM torture_sums",
        ::soci::into(added), ::soci::into(total);
    return {added, added - total};
  }

 private:
  char const* integer() const { return db_.starts_with(mysql_scheme) ? "SIGNED" : "BIGINT"; }

  std::string db_;
  bool requires_;
};

}  // namespace

std::unique_ptr<ledger> make_ledger_in_database(options const& o) {
  return std::make_unique<ledger_in_database>(o);
}

}  // namespace rowlock::torture

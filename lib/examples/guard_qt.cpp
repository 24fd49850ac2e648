// Counts, over Qt's drivers QPSQL, QMYSQL and QSQLITE, by transactions that commit only while a lock is held.
//
//   guard_qt WHERE TIMES       mysql://user:password@host:port/database, sqlite:FILE, or a CONNINFO
//
//   CREATE TABLE counter (n integer NOT NULL);
#include <QCoreApplication>
#include <QSqlDatabase>
#include <QSqlError>
#include <QSqlQuery>
#include <QString>
#include <QUrl>
#include <QVariant>
#include <cstdio>
#include <exception>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(QSqlError const& e) { throw std::runtime_error(e.text().toStdString()); }

QSqlDatabase open(std::string const& where) {
  auto const text = QString::fromStdString(where);
  QSqlDatabase db;
  if (text.startsWith("sqlite:")) {
    db = QSqlDatabase::addDatabase("QSQLITE");
    db.setDatabaseName(text.mid(7));
  } else if (text.startsWith("mysql:")) {
    QUrl const url(text);
    db = QSqlDatabase::addDatabase("QMYSQL");
    db.setHostName(url.host());
    db.setPort(url.port(3306));
    db.setUserName(url.userName());
    db.setPassword(url.password());
    db.setDatabaseName(url.path().mid(1));
  } else {
    db = QSqlDatabase::addDatabase("QPSQL");
    db.setConnectOptions(text);
  }
  if (!db.open()) fail(db.lastError());
  return db;
}

int first_of(QSqlDatabase const& db, char const* sql) {
  QSqlQuery q(db);
  if (!q.exec(sql) || !q.next()) fail(q.lastError());
  return q.value(0).toInt();
}

void run(QSqlDatabase const& db, QString const& sql, std::vector<std::string> const& values = {}) {
  QSqlQuery q(db);
  bool const ready = q.prepare(sql);
  for (auto const& one : values) q.addBindValue(QString::fromStdString(one));
  if (!ready || !q.exec()) fail(q.lastError());
}

void count(QSqlDatabase& db, rowlock::held_lock const& lock) {
  int const n = first_of(db, "SELECT n FROM counter");  // under the lock, with no transaction open
  if (!db.transaction()) fail(db.lastError());
  try {
    run(db, QString("UPDATE counter SET n = %1").arg(n + 1));
    for (auto const& guard : lock.guard_statements(rowlock::placeholders::question_mark))
      run(db, QString::fromStdString(guard.text), guard.values);
    if (!db.commit()) fail(db.lastError());
  } catch (...) {
    db.rollback();  // or the next commit() commits: Qt does not know that a statement has failed
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  QCoreApplication const application(argc, argv);
  rowlock::lock_manager manager{argv[1]};
  auto counter = manager.make_mutex("counter");
  auto db = open(argv[1]);
  for (int i = std::stoi(argv[2]); i > 0; --i) count(db, *counter.acquire());
  std::puts("counted");
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "guard_qt: not committed: %s\n", e.what());
  return 1;
}

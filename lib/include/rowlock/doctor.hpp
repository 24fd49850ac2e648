#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/findings.hpp>

#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Checks whether locks will work on a database and keep their promises, with the rights of the login. The
/// doctor tries locks in transactions that it rolls back (an SQLite file is locked for writing meanwhile). It
/// leaves nothing behind, and waits only for a statement's reply. So a program's health check may use it. It
/// opens one connection, and for a moment a second.
///
/// Exception safety: a call that throws leaves the object as it was.
///
/// Thread safety: distinct objects are independent. One object is for one thread at a time.
///
/// The checks, as far as they apply to the kind of database:
/// - connection: can a connection be made
/// - schema, damage: are the tables there, in a version for this program; are they readable (SQLite)
/// - tables: the findings of migrator::validate(); takes: can a lock of each strategy be taken, renewed,
///   released
/// - grants: has this role the rights for locking
/// - writable: does the server take writes
/// - isolation: do sessions run as the library sets them up
/// - timeouts: does the server end sessions or statements too early for the ttl
/// - row_security: may this role see and write all rows (PostgreSQL)
/// - durability: do acknowledged commits survive a crash of the server
/// - replicas: do they survive a failover
/// - galera, group_replication: is the node part of the cluster; has the group several primaries (MySQL)
/// - creators: may other roles create objects beside the tables (PostgreSQL)
/// - pooler: is there one, and how does it use its sessions (PostgreSQL)
/// - clock: the difference between this machine's clock and the database's
/// - keepalive: is a dead connection noticed within the ttl
/// - waiting: is there a wait queue, which wakes the next waiter
/// - limits: do all programs give the same limit for permits of one name
/// - tls: is the connection encrypted, if it leaves this machine
/// - index: are names found by a unique index, and compared byte for byte
/// - file_system: are file locks reliable there (SQLite)
class ROWLOCK_EXPORT doctor {
 public:
  /// @throws error(errc::invalid_argument) if an option is out of range or no plain identifier
  explicit doctor(connection_source, doctor_options = {});

  /// An error of the database or the network is a finding, and never thrown. Without a connection there is
  /// one finding.
  std::vector<finding> examine();

 private:
  connection_source source_;
  doctor_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

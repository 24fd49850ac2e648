#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/findings.hpp>

#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Says whether locks will work on a database and keep what is promised. It looks with the rights of whoever
/// logs in. The locks that it tries are in transactions that it rolls back (an SQLite file is locked for
/// writing meanwhile): it leaves nothing behind, and waits for no one longer than for a statement's reply. So
/// it may be part of a program's health check. It uses one connection, and for a moment a second one.
///
/// Exception safety: a call that throws leaves the object as it was.
///
/// Thread safety: distinct objects are independent; one object is for one thread at a time.
///
/// What it looks at is listed here. What does not apply to the kind of database is left out.
/// - connection: can it be connected to
/// - schema, damage: are the tables there, with a version of use to this program; can they be read (SQLite)
/// - tables: what migrator::validate() finds; takes: is a lock of each strategy taken, renewed, given back
/// - grants: may this role do all that locking takes
/// - writable: does the server take writes
/// - isolation: do sessions run as the library sets them up
/// - timeouts: does the server end sessions or statements too early for the ttl
/// - row_security: may this role see and write all rows (PostgreSQL)
/// - durability: does what was acknowledged survive a crash of the server
/// - replicas: does it survive a failover
/// - galera, group_replication: is the node part of the cluster; has the group several primaries (MySQL)
/// - creators: may others create objects beside the tables (PostgreSQL)
/// - pooler: is there one in between, and how are its sessions used (PostgreSQL)
/// - clock: how far this machine's clock and the database's are apart
/// - keepalive: is a dead connection noticed within the ttl
/// - waiting: can those that wait line up, so that the next one is woken
/// - limits: do all programs that take permits of one name say the same limit
/// - tls: is the connection encrypted, where it leaves this machine
/// - index: are names found by a unique index, and compared byte for byte
/// - file_system: can locks of files be relied on there (SQLite)
class ROWLOCK_EXPORT doctor {
 public:
  /// @throws error(errc::invalid_argument) if an option is out of range or no plain identifier
  explicit doctor(connection_source, doctor_options = {});

  /// An error of the database or the network is a finding and is never thrown. If no connection can be made,
  /// there is one finding.
  std::vector<finding> examine();

 private:
  connection_source source_;
  doctor_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

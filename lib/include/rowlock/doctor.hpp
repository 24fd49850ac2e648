#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/findings.hpp>

#include <optional>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Checks whether locks will work on a database and keep their promises, with the rights of the login. The
/// doctor tries locks in transactions that it rolls back (an SQLite file is locked for writing meanwhile).
/// The doctor leaves nothing behind, and waits only for a statement's reply, so a program's health check may
/// use it, on one connection, for a moment on two.
///
/// Names of checks, as far as they apply to the kind of database: connection, schema, damage, wal, tables,
/// takes, grants, quarantine, writable, isolation, timeouts, row_security, durability, replicas, snapshots,
/// galera, group_replication, creators, pooler, clock, keepalive, waiting, limits, tls, index, file_system.
/// lib/doc/doctor.md explains them.
///
/// Exception safety: a call that throws leaves the object as it was.
///
/// Thread safety: distinct objects are independent. One object is for one thread at a time.
class ROWLOCK_EXPORT doctor {
 public:
  /// @throws error(errc::invalid_argument) if an option is out of range or no plain identifier
  explicit doctor(connection_source, doctor_options = {});

  /// An error of the database or the network is a finding, and never thrown. Without a connection there is
  /// one finding.
  std::vector<finding> examine();

  /// The oldest snapshot for which the server keeps dead rows, of those that the login's role may see.
  /// @return empty for databases that keep none so
  /// @throws error of the database or the network
  std::optional<old_snapshot> oldest_snapshot();

 private:
  connection_source source_;
  doctor_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

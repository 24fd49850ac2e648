#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <functional>
#include <string>

namespace sql {
class Connection;  // MySQL Connector/C++'s own, so that its headers need not be included
}

namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE {

/// Connections to a server of MySQL (8.0 or later) or MariaDB (10.6 or later).
///
/// A call ends by its deadline. This does not hold on connections that the program opens itself: there the
/// driver counts time in whole seconds, and waits for each byte as long as the connection was opened with.
/// lib/doc/wire.md says which methods of logging in are used, and what a server can get by lying.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `mysql://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/DATABASE][?OPTION=VALUE[&...]]`, or
  /// `mariadb://` for the same. Of several hosts the first that answers and takes writes is used. Options:
  /// - `socket=PATH`: a Unix socket instead of a host
  /// - `password-file=PATH`: the password is its first line, read at each connection: a regular file
  /// - `ssl-mode=disable` (the default), `require` (encrypted, whoever answers), or `verify` (encrypted, and
  ///   the server has a certificate for HOST that `ssl-ca` signed)
  /// - `ssl-ca=PATH`, `ssl-cert=PATH`, `ssl-key=PATH`
  ///
  /// The password is the URL's, or else password-file's, or MYSQL_PWD's, or in group [client] of ~/.my.cnf
  /// (nothing else of that file counts, and nothing at all if anybody may write to it, it is no regular file,
  /// or longer than 1 MiB). The default user is who runs the program. Characters that mean
  /// something in a URL are written %40 and so on. Does not connect yet.
  /// @throws error(errc::invalid_argument) if the URL can't be used; the message has no password in it
  explicit source(std::string const& url);

  /// `open` is called whenever another connection is needed, from any thread, perhaps from several at once.
  /// What it throws, and a null pointer, is a failure to connect. rowlock deletes the connection.
  ///
  /// Preconditions: nothing else uses the connection that `open` returns. It is outside a transaction, with
  /// the options CLIENT_FOUND_ROWS and CLIENT_MULTI_STATEMENTS on, OPT_RECONNECT off, and OPT_READ_TIMEOUT
  /// set to what a reply may take.
  /// @throws error(errc::invalid_argument) if `open` is empty
  explicit source(std::function<sql::Connection*()> open);
};

}  // namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE

#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <functional>
#include <string>

namespace sql {
class Connection;  // MySQL Connector/C++'s own, so that its headers need not be included
}

namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE {

/// Connections to a server of MySQL (8.0 or later) or MariaDB (10.6 or later). lib/doc/wire.md lists the
/// supported login methods, and the limits of a lying server.
///
/// A call ends by its deadline, except on connections that the program opens itself. There the driver counts
/// whole seconds, and waits for each byte as long as the connection's options say.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `mysql://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/DATABASE][?OPTION=VALUE[&...]]`, or
  /// `mariadb://` for the same. rowlock uses the first host that answers and takes writes. Options:
  /// - `socket=PATH`: a Unix socket instead of a host.
  /// - `password-file=PATH`: a regular file with the password in its first line, read at each connection.
  /// - `ssl-mode=disable` (the default), `require` (encrypted, without a check of the server), or `verify`
  ///   (encrypted, and the server has a certificate for HOST that `ssl-ca` signed).
  /// - `ssl-ca=PATH`, `ssl-cert=PATH`, `ssl-key=PATH`.
  ///
  /// The password is that of the URL, else of password-file, of MYSQL_PWD, or of group [client] in ~/.my.cnf
  /// (ignored if all users may write to it, or if not regular or longer than 1 MiB). The default user is that
  /// of the process. Special characters of a URL are written as %40 and so on. Does not connect yet.
  /// @throws error(errc::invalid_argument) if the URL can't be used; the message contains no password
  explicit source(std::string const& url);

  /// `open` is called for each new connection, from any thread, perhaps from several at once. An exception or
  /// a null pointer is a failure to connect. rowlock deletes the connection.
  ///
  /// Preconditions: nothing else uses the returned connection, which is outside a transaction, with the
  /// options CLIENT_FOUND_ROWS and CLIENT_MULTI_STATEMENTS on, OPT_RECONNECT off, and OPT_READ_TIMEOUT set to
  /// the longest wait for a reply.
  /// @throws error(errc::invalid_argument) if `open` is empty
  explicit source(std::function<sql::Connection*()> open);
};

}  // namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE

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
/// A call ends by its deadline, but on connections that the program opens itself: the driver counts time in
/// whole seconds, and waits for each byte as long as those were opened with. Which methods of logging in are
/// used, and what a server can get by lying, is told in lib/doc/wire.md.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `mysql://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/DATABASE][?OPTION=VALUE[&...]]`, or
  /// `mariadb://` for the same. Of several hosts the first that answers and takes writes is used. Options:
  /// - `socket=PATH`: a Unix socket instead of a host
  /// - `password-file=PATH`: its first line, read at each connection
  /// - `ssl-mode=disable` (the default), `require` (encrypted, by whomever it is), or `verify` (and the
  /// server
  ///   has a certificate for HOST that `ssl-ca` signed)
  /// - `ssl-ca=PATH`, `ssl-cert=PATH`, `ssl-key=PATH`
  ///
  /// The password is the URL's, or else password-file's, or MYSQL_PWD's, or the one in group [client] of
  /// ~/.my.cnf. Without a user it is who runs the program. Characters that mean something in a URL are
  /// written %40 and so on.
  /// @throws error(errc::invalid_argument) if the URL can't be used; the message has no password in it
  explicit source(std::string const& url);

  /// `open` is called, from any thread, whenever another connection is needed, and returns one that nothing
  /// else uses, outside a transaction, with the options CLIENT_FOUND_ROWS and CLIENT_MULTI_STATEMENTS on,
  /// OPT_RECONNECT off, and OPT_READ_TIMEOUT set to what a reply may take; rowlock deletes it.
  explicit source(std::function<sql::Connection*()> open);
};

}  // namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE

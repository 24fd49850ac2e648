#pragma once
// A source with a probe in between, which is told of each statement and may do something instead of it.

#include <memory>
#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <span>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::testing {

/// Called by all threads of a manager. A step is a statement by what it does, the same for all strategies:
/// lock_take, lock_renew, lock_release, token_draw, ...; others by their names in lib/sql. A statement within
/// a transaction has its reply, as far as its caller can tell, when the transaction is committed: "begin" and
/// "commit" are steps, too.
class ROWLOCK_EXPORT probe {
 public:
  virtual ~probe() = default;
  /// What these throw comes instead of a connection, the statement, or its reply (it was applied).
  virtual void connecting() {}
  virtual void before(std::string const& /*step*/) {}
  virtual void after(std::string const& /*step*/) {}

  virtual void opened() {}
  virtual void closed() {}
  virtual void count(std::string const& /*step*/) {}
  virtual void look(std::string const& /*step*/, std::span<backend::value const> /*parameters*/) {}
  /// May change it; not called in a transaction.
  virtual void reply(std::string const& /*step*/, backend::result&) {}
};

ROWLOCK_EXPORT connection_source observed_by(connection_source const&, std::shared_ptr<probe>);

}  // namespace rowlock::testing

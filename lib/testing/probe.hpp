#pragma once
// A source with a probe in between, which sees each statement and can replace its outcome.

#include <memory>
#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <span>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::testing {

/// All threads of a manager call it. A step is a statement's effect, the same for all strategies (lock_take,
/// lock_renew, lock_release, token_draw, ...), else its name in lib/sql. In a transaction, its reply comes
/// with the commit, as far as the caller can tell. "begin" and "commit" are steps, too.
class ROWLOCK_EXPORT probe {
 public:
  virtual ~probe() = default;
  /// An exception replaces the connection, the statement, or its reply (it was applied).
  virtual void connecting() {}
  virtual void before(std::string const& /*step*/) {}
  virtual void after(std::string const& /*step*/) {}

  virtual void opened() {}
  virtual void closed() {}
  virtual void count(std::string const& /*step*/) {}
  virtual void look(std::string const& /*step*/, std::span<backend::value const> /*parameters*/) {}
  /// May change it. Only for statements of execute().
  virtual void reply(std::string const& /*step*/, backend::result&) {}
};

ROWLOCK_EXPORT connection_source observed_by(connection_source const&, std::shared_ptr<probe>);

}  // namespace rowlock::testing

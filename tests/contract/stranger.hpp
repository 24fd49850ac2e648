#pragma once
// A second owner that goes straight to the database.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "contract/databases.hpp"
#include "strategy/catalogue.hpp"

namespace rowlock::test {

/// Another program on another host: an owner whose locks this process knows nothing of.
class stranger {
 public:
  explicit stranger(fixture&, std::string process = "stranger");

  bool take(std::string const& name, std::chrono::milliseconds ttl = 30s, takeover mode = takeover::clock);
  /// Takes exactly the term that is there now.
  bool take_over(std::string const& name);
  /// Takes exactly this.
  bool claim(std::string const& name, strategies::superseded const&);
  bool renew(std::string const& name);
  /// Renews somebody's term.
  bool renew(std::string const& name, term_id const&);
  /// @return false if the term that it took is not there
  bool set_note(std::string const& name, std::string const& note);
  /// The term that it took is there.
  bool has_still(std::string const& name);
  bool release(std::string const& name);
  std::optional<strategies::term_row> read(std::string const& name);
  /// No row, or one without a term.
  bool sees_free(std::string const& name);
  backend::connection& session() { return *session_; }
  std::int64_t token(std::string const& name) { return read(name)->holder.token.value; }

 private:
  connection_source source_;
  strategy how_;
  bool writes_lock_database_;
  bool take_for_session(std::string const& name);
  bool take_with(std::string const& name, std::chrono::milliseconds ttl, takeover mode,
                 std::optional<strategies::superseded> const&);
  boot_time_point soon() const { return boot_clock::now() + 30s; }

  backend::statement_book book_;
  strategies::catalogue taking_;
  strategies::term_rows rows_;
  std::unique_ptr<backend::connection> session_;
  owner_id self_;
  std::map<std::string, term_id> terms_;
};

}  // namespace rowlock::test

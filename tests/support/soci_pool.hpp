#pragma once
// SOCI's connection pools for tests.

#include <memory>
#include <string>

namespace soci {
class connection_pool;
class session;
}  // namespace soci

namespace rowlock::test {

/// A pool of open sessions. `url`: as for rowlock: sqlite:PATH, mysql://USER:PASSWORD@HOST:PORT/DATABASE, or
/// libpq's conninfo.
std::shared_ptr<::soci::connection_pool> make_soci_pool(std::string const& url, int sessions);

/// Whether all sessions are in the pool, or come back in time.
bool has_all_sessions(::soci::connection_pool&, int sessions);

/// A session alone.
void open_soci_session(::soci::session&, std::string const& url);

/// The same place in SOCI's words.
std::string soci_connect_string(std::string const& url);

}  // namespace rowlock::test

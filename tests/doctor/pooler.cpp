// PgBouncer between.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <regex>

#include "doctor/scene.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Pools the sessions of role app.
class pgbouncer {
 public:
  pgbouncer(server_scene const& s, std::string const& mode) {
    std::smatch port;
    auto const address = s.as_admin();
    std::regex_search(address, port, std::regex("port=([0-9]+)"));
    // A free one, or another is tried: PgBouncer ends at once if somebody has it.
    for (int number = 6400 + ::getpid() % 2000; !process_; ++number) {
      REQUIRE(number < 9000);
      std::ofstream(folder_.file("ini")) << fmt::format(
          "[databases]\npostgres = host=127.0.0.1 port={} user=app\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
          "listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = {}\n",
          port.str(1), number, mode);
      std::vector<std::string> command{"/usr/bin/env"};
      // It refuses to be root's.
      if (::geteuid() == 0) command.insert(command.end(), {"setpriv", "--reuid=nobody", "--clear-groups"});
      ::chmod(folder_.path().c_str(), 0755);
      command.insert(command.end(), {"pgbouncer", folder_.file("ini")});
      process_.emplace(command);
      url_ = fmt::format("host=127.0.0.1 port={} dbname=postgres user=app", number);
      bool gone = false;
      REQUIRE(eventually([&] {
        gone = process_->output().find("ddress already in use") != std::string::npos;
        return gone || ::PQping(url_.c_str()) == PQPING_OK;
      }));
      if (gone) process_.reset();
    }
  }
  std::string const& url() const noexcept { return url_; }

 private:
  scratch_folder folder_;
  std::optional<child_process> process_;
  std::string url_;
};

}  // namespace

TEST_CASE("pooler: none, PgBouncer in session mode, in transaction mode <postgresql>") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  expect(s.examine(), "pooler", verdict::ok, "connected to the server itself");
  {
    pgbouncer const p(s, "session");
    expect(examined(p.url()), "pooler", verdict::ok, "in session mode as far as can be seen");
  }
  pgbouncer const p(s, "transaction");
  expect(examined(p.url()), "pooler", verdict::error, "by the transaction", "pool_mode = session");
}

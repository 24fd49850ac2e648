// Connector/C++ over libmariadb, and what rowlock makes of it, whatever a server sends at whatever moment.
#include <fmt/format.h>

#include <rowlock/mysql.hpp>

#include "fuzz/lied_to.hpp"
#include "hostile/fake_session.hpp"

using namespace rowlock;

namespace {

std::string framed(std::string_view message, int number) { return test::mysql_says::packet(number, message); }

void talk(test::peer& p) {
  test::fake_mysql_session session(p);
  while (session.hear())
    if (!p.say(session.reply())) return;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::lie_to({data, size}, framed, talk, [](int port) {
    return mysql::source(fmt::format("mysql://u:p@127.0.0.1:{}/d", port)).implementation();
  });
  return 0;
}

// libpq, and what rowlock makes of it, whatever a server sends at whatever moment.
#include <fmt/format.h>

#include <rowlock/postgresql.hpp>

#include "fuzz/lied_to.hpp"
#include "hostile/fake_session.hpp"

using namespace rowlock;

namespace {

std::string framed(std::string_view message, int) {
  return message.empty() ? std::string() : test::postgresql_says::message(message[0], message.substr(1));
}

void talk(test::peer& p) {
  test::fake_postgresql_session session(p);
  while (session.hear())
    if (!p.say(session.reply())) return;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::lie_to({data, size}, framed, talk, [](int port) {
    return postgresql::source(fmt::format("postgresql://u:p@127.0.0.1:{}/d", port)).implementation();
  });
  return 0;
}

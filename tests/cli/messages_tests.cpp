// What is said to a person who was woken: the thing, what is wrong with it, the way out.

#include <fmt/format.h>

#include <chrono>

#include "cli/place.hpp"

using namespace rowlock::test;

namespace {

/// Has a command run where the system forbids one call, as a container's seccomp profile does.
words without_call(int number, words const& command) {
  words all{"/usr/bin/python3", "-c",
            fmt::format(R"(import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
load, equal, give = 0x20, 0x15, 0x06
program = [(load, 0, 0, 0), (equal, 0, 1, {}), (give, 0, 0, 0x00050001), (give, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
class filter(ctypes.Structure):
  _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
at = filter(len(program), ctypes.cast(code, ctypes.c_void_p))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(at), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:]))",
                        number)};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

}  // namespace

TEST_CASE("C91: a call that the system forbids is named, and who forbids it; it is no bug") {
  on_sqlite const p;
  constexpr int clone3 = 435;  // on every architecture; threads are started by it
  auto const r = run(without_call(clone3, p.command({"run", "n", "--", "true"})), p.variables());
  CHECK(r.status == 71);
  CHECK(r.says("a thread could not be started: Operation not permitted. The system forbids"));
  CHECK(r.says("seccomp"));
  CHECK_FALSE(r.says("bug"));
}

TEST_CASE("C91: migrate up says that it has made the schema that was named") {
  on_postgresql const p(false);
  auto const first = p.rowlock({"migrate", "up"});
  CHECK(first.status == 0);
  CHECK(first.says("made the schema " + p.options().back() + ", which was not there"));
  CHECK(first.says("DROP SCHEMA"));
  CHECK_FALSE(p.rowlock({"migrate", "up"}).says("made the schema"));
}

TEST_CASE("C91: list --reaper gives up as soon as list does, where the server is silent") {
  program const silent({"/usr/bin/python3", "-c",
                        "import socket, time\n"
                        "s = socket.socket()\n"
                        "s.bind(('127.0.0.1', 0))\n"
                        "s.listen(64)\n"
                        "print(s.getsockname()[1], flush=True)\n"
                        "time.sleep(600)"});
  REQUIRE(within(60s, [&] { return silent.out().ends_with('\n'); }));
  auto const port = silent.out().substr(0, silent.out().size() - 1);
  auto const began = std::chrono::steady_clock::now();
  auto const r =
      run({rowlock_program, "--db", "postgresql://x@127.0.0.1:" + port + "/x", "list", "--reaper"});
  CHECK(r.status == 69);
  CHECK(seconds_since(began) < 25);
}

TEST_CASE("C91: a long note is cut in a table and in a message, and whole in JSON") {
  on_sqlite const p;
  std::string const note(1024, 'x');
  holder const h(p, {"--note", note, "n"});
  for (auto const& text : {p.rowlock({"list"}).out, p.rowlock({"run", "--no-wait", "n", "--", "true"}).err}) {
    CHECK(text.find(std::string(97, 'x') + "...") != std::string::npos);
    CHECK(text.find(std::string(98, 'x')) == std::string::npos);
  }
  CHECK(p.rowlock({"list", "--json"}).out.find(note) != std::string::npos);
}

#include "fuzz/lied_to.hpp"

#include <array>
#include <chrono>
#include <rowlock/error.hpp>
#include <string>
#include <string_view>

#include "backend/wire_watch.hpp"

namespace rowlock::fuzz {
namespace {

using namespace std::chrono_literals;

// After the lie the client may wait for bytes that never come, and the server for the client: it hangs up.
constexpr auto patience = 20ms;

constexpr auto read_two = "SELECT a, b, c FROM t WHERE a = $1 AND b = $2";
backend::statement const reads{"reads", read_two};
backend::statement const writes{"writes", "UPDATE t SET a = $1 WHERE b = $2"};
std::array<backend::value, 2> const parameters{backend::value(std::int64_t{1}),
                                               backend::value(std::string("b"))};

boot_time_point soon() { return boot_clock::now() + 5s; }

void read(backend::connection& c) {
  for (int i = 0; i < 2; ++i)
    for (auto const& row : c.execute(reads, parameters, soon()).rows)
      if (auto const* text = std::get_if<std::string>(&row.at(1)))
        must(text->size() < backend::most_reply_bytes);
}

void write(backend::connection& c) { (void)c.execute(writes, parameters, soon()); }

void run_texts(backend::connection& c) {
  c.script("START TRANSACTION;SELECT 'a';DO 1", soon());
  c.script("COMMIT", soon());
}

void run_at_once(backend::connection& c) {
  std::array<backend::step, 2> const steps{{{reads, parameters}, {writes, parameters}}};
  (void)c.execute_at_once(steps, soon());
}

void wait(backend::connection& c) {
  (void)c.wait_for_row(reads, parameters, soon(), 1s, {});
  c.script("ROLLBACK", soon());
}

void stand_at_queue(backend::connection& c) {
  (void)c.enter_queue({}, "name", "who", soon(), 1s, {});
  (void)c.execute_and_leave_queue(writes, parameters, soon());
  (void)c.leave_queue(soon());
}

void look(backend::connection& c) {
  (void)c.find_schema("t", true, soon());
  (void)c.alive();
  if (c.usable()) (void)c.facts();
  (void)c.execute({"plan", "EXPLAIN SELECT 1"}, {}, soon());
}

constexpr std::array calls{read, write, run_texts, run_at_once, wait, stand_at_queue, look};

}  // namespace

void lie_to(std::span<std::uint8_t const> input, lie::framing frame,
            std::function<void(test::peer&)> const& talk,
            std::function<std::shared_ptr<backend::source>(int port)> const& source) {
  bytes in(input);
  auto const call = calls.at(static_cast<std::uint8_t>(in.next() - 'a') % calls.size());
  lie told(in, frame);
  test::fake_server const server([&](test::peer& p) {
    p.change([&](std::string_view sound) {
      auto said = told.instead_of(sound);
      if (told.done()) p.expect_within(patience);
      return said;
    });
    talk(p);
  });
  auto const began = boot_clock::now();
  try {
    call(*source(server.port())->connect(soon()));
  } catch (error const& e) {
    must(!std::string_view(e.what()).empty());
  }
  must(boot_clock::now() - began < 60s);
}

}  // namespace rowlock::fuzz

// A failover that forgets a lock, once with rowlock's pause after it and once without: whether two own the
// lock. It starts PostgreSQL servers itself. tools/demo-failover builds and runs it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "demo/chart.hpp"
#include "demo/events.hpp"
#include "load/forgetful.hpp"

namespace rowlock::demo {
namespace {

using namespace std::chrono_literals;

/// Its times are as event::at.
struct failover {
  bool with_pause = true;
  std::int64_t granted_a = 0;
  std::int64_t died = 0;           ///< the primary
  std::int64_t promoted = 0;       ///< the standby, which has not heard of A's lock
  std::int64_t trusted_until = 0;  ///< until then A may act
  std::int64_t granted_b = 0;
  bool token_rose = false;
  std::int64_t overlap() const { return std::max<std::int64_t>(trusted_until - granted_b, 0); }
};

failover fail_over(std::chrono::seconds lease, bool with_pause) {
  auto const servers = test::make_forgetful("pair-postgresql", {.longest = lease, .names = 1});
  lock_manager a(source_from_url(servers->address()));
  mutex_options const options{.ttl = lease, .renew = false};
  servers->lag();
  failover f{.with_pause = with_pause};
  auto const lock = a.make_mutex("stock", options).try_acquire();
  if (!lock) throw std::runtime_error("A was not granted the lock");
  f.granted_a = now();
  f.trusted_until = f.granted_a + (lock->trusted_until().value() - boot_clock::now()) / 1ns;
  std::this_thread::sleep_for(1s);  // The primary's last second.
  servers->kill();
  f.died = now();
  servers->come_back();
  f.promoted = now();
  if (servers->number(
          "SELECT count(*) FROM public.rowlock_locks WHERE name = 'stock' AND term IS NOT NULL") != 0)
    throw std::runtime_error("the standby has heard of A's lock");
  if (!with_pause) servers->pulse_at_once();
  lock_manager b(source_from_url(servers->address()));
  auto const next = b.make_mutex("stock", options).try_acquire_for(lease + 2min);
  f.granted_b = now();
  if (!next) throw std::runtime_error("B was not granted the lock");
  f.token_rose = next->token().value > lock->token().value;
  return f;
}

constexpr auto before = milliseconds(500);

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

class panel {
 public:
  panel(failover const& f, std::chrono::seconds lease, double top)
      : f_(f),
        chart_({.top = top,
                .rows = {"old primary", "standby", "program A", "program B"},
                .from = f.granted_a - before,
                .shown = (lease + 4s) / 1ns,
                .tick = 1s / 1ns}) {}

  std::string draw(std::string const& heading) const {
    auto const begin = f_.granted_a - before, end = chart_.end();
    bool const paused = f_.with_pause;
    auto svg = chart_.frame(heading);
    std::string notes;  // above all bars
    auto const bar = [&](int row, std::int64_t from, std::int64_t to, char const* style, char const* text) {
      svg += chart_.bar(row, from, to, style);
      if (*text != '\0') notes += note(from, to, chart_.bar_top(row), text);
    };
    bar(0, begin, f_.died, "server", "grants, dies");
    bar(1, begin, f_.promoted, "waits", "is cut off");
    if (paused) bar(1, f_.promoted, f_.granted_b, "silent", "promoted, grants nothing");
    bar(1, paused ? f_.granted_b : f_.promoted, end, "server", paused ? "grants" : "promoted, grants");
    bar(2, f_.granted_a, f_.trusted_until, "holds", "");
    bar(3, f_.promoted, f_.granted_b, "waits", paused ? "waits" : "");
    bar(3, f_.granted_b, end, "holds", "");
    if (f_.overlap() > 0) {
      auto const top = chart_.bar_top(2);
      svg += fmt::format("<rect class=\"both\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>\n",
                         chart_.x(f_.granted_b), top, chart_.x(f_.trusted_until) - chart_.x(f_.granted_b),
                         chart::row_height + chart::bar_height);
      notes += note(f_.granted_b, f_.trusted_until, top + chart::row_height / 2,
                    fmt::format("two owners for {:.1f} s", seconds(f_.overlap())));
    }
    return svg + notes;
  }

  static double height() { return chart::height(4); }

 private:
  /// In the middle of a bar, or of what is as high.
  std::string note(std::int64_t from, std::int64_t to, double top, std::string const& text) const {
    return fmt::format("<text class=\"note\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
                       (chart_.x(from) + chart_.x(to)) / 2, top + 13, text);
  }

  failover f_;
  chart chart_;
};

std::string draw(std::chrono::seconds lease, failover const& without, failover const& with) {
  double const first = 44;
  double const second = first + panel::height() + 16;
  return picture(
      "The new primary has not heard of A's lock, and B asks for it",
      fmt::format("A failover that forgets a lock of {} s, on PostgreSQL with an asynchronous standby",
                  lease.count()),
      panel(without, lease, first).draw("Without a pause: B is granted the lock while A still owns it") +
          panel(with, lease, second)
              .draw("With rowlock's pause: B waits until A's lease must be over, and gets a higher token"),
      second + panel::height() + 14,
      {{R"(<rect class="server" width="16" height="12"/>)", "grants locks", 12},
       {R"(<rect class="silent" width="16" height="12"/>)", "rowlock's pause", 150},
       {R"(<rect class="holds" width="16" height="12"/>)", "may act as the owner", 300},
       {R"(<rect class="both" width="16" height="12"/>)", "two owners", 490}});
}

int run(std::chrono::seconds lease, std::string const& path) {
  auto const without = fail_over(lease, false);
  fmt::print("without a pause: two owners for {:.1f} s\n", seconds(without.overlap()));
  auto const with = fail_over(lease, true);
  fmt::print(
      "with it: two owners for {:.1f} s, the next one {:.1f} s after the promotion, its token is {}higher\n",
      seconds(with.overlap()), seconds(with.granted_b - with.promoted), with.token_rose ? "" : "NOT ");
  if (without.overlap() == 0 || with.overlap() > 0 || !with.token_rose) return 1;
  std::ofstream file(path);
  file << draw(lease, without, with);
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
  return 0;
}

}  // namespace
}  // namespace rowlock::demo

int main(int argc, char** argv) try {
  auto const lease = argc == 3 ? std::chrono::seconds(std::stoi(argv[2])) : std::chrono::seconds(6);
  if ((argc == 2 || argc == 3) && lease.count() > 0) return rowlock::demo::run(lease, argv[1]);
  fmt::print(stderr,
             "usage: rowlock_demo_failover FILE [LEASE]\n"
             "  FILE   where to draw both failovers (SVG), if the exit status is 0\n"
             "  LEASE  the lock's, in seconds (6)\n"
             "Exit status: 0 if two owned the lock without the pause, and one at a time with it.\n");
  return 64;
} catch (std::exception const& e) {
  fmt::print(stderr, "rowlock_demo_failover: {}\n", e.what());
  return 70;
}

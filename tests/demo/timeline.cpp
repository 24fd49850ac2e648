#include "demo/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "demo/chart.hpp"

namespace rowlock::demo {
namespace {

constexpr auto bar_height = chart::bar_height;
constexpr auto before = milliseconds(250), shown = milliseconds(1'250);

/// What came of one pause that fell amid thinking.
struct pause {
  int worker = 0;
  std::int64_t stopped = 0;
  std::int64_t resumed = 0;
  std::int64_t decided = 0;      ///< when it wrote after all, or was refused
  std::int64_t value = 0;        ///< that it wrote, or wanted to
  std::int64_t overwritten = 0;  ///< increments of others; 0: refused
  std::int64_t taken_over = 0;   ///< when another was granted the lock
  int successor = 0;
};

/// All pauses with a bad end, or one that was averted.
std::vector<pause> telling_pauses(outcome const& o, int counters) {
  std::vector<pause> told;
  std::map<int, pause> open;            // by worker
  std::map<int, std::int64_t> counted;  // by counter
  std::map<int, happening> last;        // by worker
  for (auto const& e : o.log) {
    auto const counter = e.worker % counters;
    if (e.what == happening::stopped && last[e.worker] == happening::read) {
      open[e.worker] = {.worker = e.worker, .stopped = e.at};
    } else if (e.what == happening::granted) {
      for (auto& [who, p] : open)
        if (who != e.worker && who % counters == counter && p.taken_over == 0) {
          p.taken_over = e.at;
          p.successor = e.worker;
        }
    } else if (auto const p = open.find(e.worker); p != open.end()) {
      if (e.what == happening::resumed) p->second.resumed = e.at;
      if (e.what == happening::acknowledged || e.what == happening::refused) {
        p->second.decided = e.at;
        p->second.value = e.value;
        if (e.what == happening::acknowledged) p->second.overwritten = counted[counter] - (e.value - 1);
        if (p->second.taken_over != 0 && (e.what == happening::refused || p->second.overwritten > 0))
          told.push_back(p->second);
        open.erase(p);
      }
    }
    if (e.what == happening::acknowledged) counted[counter] = e.value;
    if (e.what != happening::stopped && e.what != happening::resumed) last[e.worker] = e.what;
  }
  return told;
}

class panel {
 public:
  panel(phase_options const& o, outcome const& what, double top) : options_(o), what_(what) {
    auto const all = telling_pauses(what, o.counters);
    if (all.empty() || what.log.empty()) throw std::runtime_error("no pause to draw a picture of");
    auto const is_better = [&](pause const& a, pause const& b) { return troubles(a) < troubles(b); };
    main_ = *std::ranges::min_element(all, is_better);
    std::vector<std::string> names;
    for (int row = 0; row < rows(o); ++row) names.push_back(fmt::format("worker {}", row + 1));
    chart_.emplace(chart::options{.top = top,
                                  .rows = std::move(names),
                                  .from = main_.stopped - before,
                                  .shown = shown,
                                  .tick = milliseconds(250)});
  }

  std::string draw(std::string const& heading) const {
    auto svg = chart_->frame(heading);
    bars(svg);
    marks(svg);
    notes(svg);
    return svg;
  }

  static double height(phase_options const& o) { return chart::height(rows(o)); }

  pause const& shown_pause() const { return main_; }

 private:
  template <class... Arguments>
  static void add(std::string& svg, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    svg += fmt::format(text, std::forward<Arguments>(arguments)...) + '\n';
  }

  static int rows(phase_options const& o) { return o.workers / o.counters; }
  bool is_here(int worker) const { return worker % options_.counters == main_.worker % options_.counters; }
  double bar_top(int worker) const { return chart_->bar_top(worker / options_.counters); }
  double x(std::int64_t t) const { return chart_->x(t); }

  /// How little a pause is fit to be shown.
  std::int64_t troubles(pause const& p) const {
    auto const start = p.stopped - before;
    if (start < what_.log.front().at || start + shown > what_.log.back().at) return INT64_MAX;
    auto const others = std::ranges::count_if(what_.log, [&](event const& e) {
      return (e.what == happening::stopped || e.what == happening::resumed) &&
             e.worker % options_.counters == p.worker % options_.counters && e.at > start &&
             e.at < start + shown;
    });
    auto const length = p.decided - p.stopped;
    return (others - 2) * 20 + std::abs(length - milliseconds(500)) / milliseconds(50);
  }

  void bars(std::string& svg) const {
    std::map<int, std::int64_t> since, stopped;
    auto bar = [&](int worker, std::int64_t from, std::int64_t to, char const* what) {
      if (is_here(worker)) svg += chart_->bar(worker / options_.counters, from, to, what);
    };
    auto const end = chart_->end();
    for (auto const& e : what_.log) {
      if (e.what == happening::granted) since[e.worker] = e.at;
      if (e.what == happening::released && since.contains(e.worker)) {
        bar(e.worker, since[e.worker], e.at, "holds");
        since.erase(e.worker);
      }
    }
    for (auto const& [worker, from] : since) bar(worker, from, end, "holds");
    for (auto const& e : what_.log) {
      if (e.what == happening::stopped) stopped[e.worker] = e.at;
      if (e.what == happening::resumed) {
        bar(e.worker, stopped[e.worker], e.at, "stopped");
        stopped.erase(e.worker);
      }
    }
    for (auto const& [worker, from] : stopped) bar(worker, from, end, "stopped");
  }

  void marks(std::string& svg) const {
    std::map<int, std::int64_t> counted;
    for (auto const& e : what_.log) {
      auto const counter = e.worker % options_.counters;
      auto const lost = e.what == happening::acknowledged && counted[counter] > e.value - 1;
      if (e.what == happening::acknowledged) counted[counter] = e.value;
      if (!is_here(e.worker) || !chart_->is_shown(e.at)) continue;
      auto const y = bar_top(e.worker) + bar_height;
      if (lost) {
        add(svg, R"(<circle class="lost" cx="{:.1f}" cy="{}" r="6"/>)", x(e.at), y - bar_height / 2);
      } else if (e.what == happening::acknowledged) {
        add(svg, R"(<rect class="kept" x="{:.1f}" y="{}" width="2.5" height="7"/>)", x(e.at) - 1.2, y + 2);
      } else if (e.what == happening::refused) {
        add(svg, R"(<path class="refused" d="M{:.1f} {}l7 7l-7 7l-7 -7z"/>)", x(e.at),
            y - bar_height / 2 - 7);
      }
    }
  }

  void notes(std::string& svg) const {
    auto const& p = main_;
    auto const y = bar_top(p.worker) + 13;
    add(svg, R"(<text class="note" text-anchor="middle" x="{:.1f}" y="{}">stopped after reading {}</text>)",
        (x(p.stopped) + x(p.resumed)) / 2, y, p.value - 1);
    add(svg, R"(<text class="note" x="{:.1f}" y="{}">{}</text>)", x(p.decided) - 6, bar_top(p.worker) - 4,
        p.overwritten > 0 ? fmt::format("writes {} over {}", p.value, p.value - 1 + p.overwritten)
                          : fmt::format("wants to write {}: refused", p.value));
    add(svg, R"(<text class="note" text-anchor="end" x="{:.1f}" y="{}">takes over</text>)",
        x(p.taken_over) - 5, bar_top(p.successor) + 13);
  }

  phase_options options_;
  outcome const& what_;
  pause main_;
  std::optional<chart> chart_;
};

}  // namespace

std::string timeline(std::string const& database, phase_options const& o, outcome const& lease,
                     outcome const& require) {
  double const first = 44;
  double const second = first + panel::height(o) + 16;
  double const legend = second + panel::height(o) + 14;
  panel const a(o, lease, first);
  panel const c(o, require, second);
  auto const heading = fmt::format(
      "With a lease alone: it writes what it computed before, and {} increments of others are lost",
      a.shown_pause().overwritten);
  return picture(
      "Workers under a lock, one of which is stopped for longer than the lock lasts",
      fmt::format("A worker that is stopped for longer than its lock lasts ({} ms), on {}", o.ttl.count(),
                  database),
      a.draw(heading) +
          c.draw("With require() in the transaction that writes: its commit is refused, and nothing is lost"),
      legend,
      {{R"(<rect class="holds" width="16" height="12"/>)", "believes to hold the lock", 12},
       {R"(<rect class="stopped" width="16" height="12"/>)", "the same, while stopped", 212},
       {R"(<rect class="kept" x="6" y="2" width="2.5" height="8"/>)", "write acknowledged", 408},
       {R"(<circle class="lost" cx="8" cy="6" r="6"/>)", "write over others' writes", 572},
       {R"(<path class="refused" d="M8 -1l7 7l-7 7l-7 -7z"/>)", "commit refused", 770}});
}

}  // namespace rowlock::demo

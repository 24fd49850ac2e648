// The pictures, by gnuplot: it reads a script with its data, and writes SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "report.hpp"

namespace rowlock::bench {
namespace {

struct picture {
  char const* plot;  ///< the scenarios' word
  char const* title;
  char const* x;
  char const* y;
  char const* metric;
};
constexpr picture by_number[] = {
    {"handover", "Hand-overs of one name", "processes that want it", "hand-overs per second",
     "handovers_per_second"},
    {"threads", "Take and give back, a name for each thread", "threads of one process", "cycles per second",
     "per_second"},
    {"waiting", "Threads that wait for 100 names", "threads of one process", "% of a core", "core_percent"}};
constexpr picture bars[] = {{"cycle", "Take and give back, 1 client", "", "microseconds (median)", "p50_us"},
                            {"growth", "Take and give back, PostgreSQL, by what the table has", "",
                             "microseconds (median)", "p50_us"}};
/// Of `growth`: its systems that are points of a line. The others are bars.
constexpr picture lines_of_growth{"old-snapshot",
                                  "Take and give back one name, or UPDATE one row, beside an old snapshot",
                                  "cycles since the snapshot was taken", "microseconds (median)", "p50_us"};

/// Quotes of gnuplot's own are doubled; nothing else is special between single ones.
std::string quoted(std::string const& text) {
  std::string out = "'";
  for (char const c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

class gnuplot {
 public:
  explicit gnuplot(std::string const& file)
      : file_(file), pipe_(::popen("gnuplot 2>/dev/null", "w")) {  // NOLINT(cert-env33-c): from PATH
    if (!pipe_) throw peer_error("gnuplot can't be started");
    say("set terminal svg size 1000,560 noenhanced font 'sans,13' background 'white'\nset encoding utf8\n");
    say(fmt::format("set output {}\nset grid y\nset key outside right\n", quoted(file)));
  }
  void say(std::string const& text) { std::fwrite(text.data(), 1, text.size(), pipe_.get()); }
  /// @throws peer_error if it did not draw
  void end() {
    if (::pclose(pipe_.release()) != 0) throw peer_error("gnuplot failed");
    without_blanks();
  }

 private:
  struct closer {
    void operator()(std::FILE* f) const noexcept { ::pclose(f); }
  };
  /// gnuplot leaves blanks at the end of lines, and empty lines at the end of the file; the tree has none.
  void without_blanks() const {
    std::ifstream in(file_);
    std::string text;
    for (std::string line; std::getline(in, line);)
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    text.erase(text.find_last_not_of('\n') + 1);
    std::ofstream(file_) << text << '\n';
  }
  std::string file_;
  std::unique_ptr<std::FILE, closer> pipe_;
};

std::vector<scenario_result const*> of_plot(report const& all, std::string const& plot) {
  std::vector<scenario_result const*> found;
  for (auto const& each : all.scenarios)
    if (each.what->plot == plot) found.push_back(&each);
  return found;
}

std::string const& line_of(system_result const& system) { return find_system(system.id)->line; }

bool measured(scenario_result const& result, std::string const& metric) {
  return std::any_of(result.systems.begin(), result.systems.end(), [&](system_result const& s) {
    return line_of(s).empty() && spread_of(s, metric).has_value();
  });
}

/// The points of each line, by its title: what stands at which x.
using line_set = std::vector<std::pair<std::string, std::map<double, double>>>;

void add_point(line_set& all, std::string const& title, double x, std::optional<spread> const& y) {
  if (!y) return;
  auto line = std::find_if(all.begin(), all.end(), [&](auto const& each) { return each.first == title; });
  if (line == all.end()) line = all.insert(all.end(), {title, {}});
  line->second[x] = y->median;
}

/// One line for each system, over the scenarios' numbers.
line_set over_scenarios(std::vector<scenario_result const*> const& results, std::string const& metric) {
  line_set all;
  for (auto const* const result : results)
    for (auto const& system : result->systems)
      add_point(all, system.title, result->what->x, spread_of(system, metric));
  return all;
}

line_set over_systems(scenario_result const& result, std::string const& metric) {
  line_set all;
  for (auto const& system : result.systems)
    if (auto const& line = line_of(system); !line.empty())
      add_point(all, line, find_system(system.id)->x, spread_of(system, metric));
  return all;
}

void draw_lines(picture const& p, line_set const& all, std::string const& file) {
  gnuplot g(file);
  g.say(fmt::format("set title {}\nset xlabel {}\nset ylabel {}\nset logscale xy 2\nset logscale y 10\n",
                    quoted(p.title), quoted(p.x), quoted(p.y)));
  // Of a single point gnuplot would make a range of its own, and warn.
  std::set<double> numbers;
  for (auto const& [title, points] : all)
    for (auto const& [x, y] : points) numbers.insert(x);
  if (numbers.size() == 1)
    g.say(fmt::format("set xrange [{}:{}]\n", *numbers.begin() / 2, *numbers.begin() * 2));
  std::string blocks;
  std::string plots;
  for (std::size_t i = 0; i < all.size(); ++i) {
    blocks += fmt::format("$d{} << EOD\n", i);
    for (auto const& [x, y] : all[i].second) blocks += fmt::format("{} {}\n", x, y);
    blocks += "EOD\n";
    plots += fmt::format("{}$d{} using 1:2 with linespoints lw 2 title {}", i == 0 ? "plot " : ", ", i,
                         quoted(all[i].first));
  }
  g.say(blocks + plots + "\n");
  g.end();
}

/// A bar for each system, with its quartiles.
void draw_bars(picture const& p, scenario_result const& result, std::string const& file) {
  gnuplot g(file);
  std::string data;
  for (auto const& system : result.systems)
    if (auto const value = spread_of(system, p.metric); value && line_of(system).empty())
      data += fmt::format("\"{}\" {} {} {}\n", system.title, value->median, value->lower, value->upper);
  g.say(fmt::format(
      "set title {}\nset ylabel {}\nset style data histogram\nset style histogram errorbars gap 1\n"
      "set style fill solid 0.7\nset yrange [0:*]\nset bmargin at screen 0.4\nset lmargin at screen 0.2\nset "
      "xtics rotate by 40 right nomirror\nunset key\n"
      "$d << EOD\n{}EOD\nplot $d using 2:3:4:xtic(1) lc rgb '#3465a4'\n",
      quoted(p.title), quoted(p.y), data));
  g.end();
}

/// How much of an even share each process got, from the smallest to the largest.
void draw_shares(scenario_result const& result, std::string const& file) {
  gnuplot g(file);
  std::string blocks;
  std::string lines = fmt::format(
      "set title {}\nset xlabel 'processes, those with the least first'\n"
      "set ylabel 'share (1: an even one)'\nset yrange [0:*]\nplot 1 lc rgb 'grey' notitle",
      quoted(result.what->title));
  int block = 0;
  for (auto const& system : result.systems) {
    if (system.rounds.empty() || !system.rounds[0]) continue;
    auto cycles = system.rounds[0]->cycles;
    std::sort(cycles.begin(), cycles.end());
    double all = 0;
    for (auto const each : cycles) all += static_cast<double>(each);
    std::string data;
    for (std::size_t i = 0; i < cycles.size(); ++i)
      data += fmt::format("{} {}\n", i + 1, static_cast<double>(cycles[i] * cycles.size()) / all);
    blocks += fmt::format("$d{} << EOD\n{}EOD\n", block, data);
    lines += fmt::format(", $d{} with linespoints lw 2 title {}", block++, quoted(system.title));
  }
  g.say(blocks + lines + "\n");
  g.end();
}

}  // namespace

std::vector<std::string> draw(report const& all, std::string const& folder) {
  std::vector<std::string> files;
  auto const file = [&](std::string const& name) -> std::string const& {
    return files.emplace_back((std::filesystem::path(folder) / (name + ".svg")).string());
  };
  std::filesystem::create_directories(folder);
  auto const draw_those = [&](picture const& p, line_set const& all_lines) {
    if (!all_lines.empty()) draw_lines(p, all_lines, file(p.plot));
  };
  for (auto const& each : by_number) draw_those(each, over_scenarios(of_plot(all, each.plot), each.metric));
  for (auto const* const result : of_plot(all, "growth"))
    draw_those(lines_of_growth, over_systems(*result, lines_of_growth.metric));
  for (auto const& each : bars)
    for (auto const* const result : of_plot(all, each.plot))
      if (measured(*result, each.metric)) draw_bars(each, *result, file(each.plot));
  for (auto const* const result : of_plot(all, "shares"))
    if (measured(*result, "smallest_share")) draw_shares(*result, file(result->what->id));
  return files;
}

}  // namespace rowlock::bench

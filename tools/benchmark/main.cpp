// rowlock-bench: rowlock beside other locks. tools/bench starts the servers and calls it.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "options.hpp"
#include "quiet.hpp"
#include "report.hpp"

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;

enum status : int { all_reached = 0, some_missed = 1, machine_busy = 3 };  // 2: see main()

/// On a terminal the newest line alone; elsewhere only what went wrong.
void say(std::string_view text) {
  if (::isatty(STDERR_FILENO) == 1)
    fmt::print(stderr, "\r\033[K{}", text);
  else if (text.ends_with('\n'))
    fmt::print(stderr, "{}", text);
}

std::string first_value(std::string const& file, std::string const& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return line.substr(line.find(':') + 2);
  return "?";
}

std::vector<std::pair<std::string, std::string>> this_machine() {
  utsname name{};
  ::uname(&name);
  return {{"processors", fmt::format("{} x {}", std::thread::hardware_concurrency(),
                                     first_value("/proc/cpuinfo", "model name"))},
          {"kernel", fmt::format("{} {}", name.sysname, name.release)}};
}

/// Who keeps the machine busy; empty if nobody does. Servers that have just been started get some time to
/// settle.
std::string busy_with(std::string const& folder) {
  std::string text;
  for (int tries = 0; tries < 5; ++tries) {
    usage const before(folder);
    std::this_thread::sleep_for(3s);
    usage const after(folder);
    auto const used = usage::foreign_processors(before, after);
    if (used < 0.1) return {};
    text = fmt::format("others use {:.0f} % of a processor: {}", used * 100,
                       usage::foreign_names(before, after));
  }
  return text;
}

void list(options const& o) {
  for (auto const& each : wanted_scenarios(o.run))
    for (auto const& system : each.systems) fmt::print("{}/{}\n", each.id, system);
}

/// What strace looks at.
int only_cycles(options const& o) {
  auto const* const system = find_system(o.system);
  if (system == nullptr || !system->open) throw peer_error("there is no system " + o.system);
  auto const s = system->open(o.run.where.at(system->place));
  auto const me = s->new_client();
  auto const name = "syscalls-" + system->id;
  for (int i = 0; i < o.cycles; ++i) {
    me->take(name, {});
    me->give_back();
  }
  return all_reached;
}

int measure_all(options& o) {
  auto const folder = o.run.where.contains("folder") ? o.run.where.at("folder") : std::string();
  auto const chosen = wanted_scenarios(o.run);
  if (chosen.empty()) throw peer_error("nothing matches --only: --list prints the names");
  report all{.machine = this_machine(),
             .settings = o.settings,
             .scenarios = {},
             .verdicts = {},
             .rounds = o.run.rounds};
  if (o.anyway) {
    all.not_judged = "--anyway";
  } else if (auto const busy = busy_with(folder); !busy.empty()) {
    fmt::print(stderr,
               "The machine is busy: {}.\nFigures would not mean much. --anyway measures without verdicts.\n",
               busy);
    return machine_busy;
  }
  o.run.say = say;
  auto const print = [&o](std::string const& text) {
    if (!o.json) fmt::print("{}", text);
    std::fflush(stdout);
  };
  print(heading_text(all));
  for (auto const& each : chosen) {
    all.scenarios.push_back(run(each, o.run));
    say("");
    print(scenario_text(all.scenarios.back()));
  }
  all.verdicts = judge(all.scenarios, bounds(o.run.servers), all.not_judged);
  print(verdicts_text(all));
  if (o.json) fmt::print("{}\n", as_json(all).dump(2));
  std::fflush(stdout);
  if (!o.plots.empty())
    for (auto const& file : draw(all, o.plots)) fmt::print(stderr, "{}\n", file);
  for (auto const& each : all.verdicts)
    if (each.said == judgement::missed) return some_missed;
  return all_reached;
}

}  // namespace

static int run_bench(int argc, char** argv) {
  options o;
  if (auto const end = parse(argc, argv, o)) return *end;
  check_tables();
  if (o.list) {
    list(o);
    return all_reached;
  }
  return o.cycles > 0 ? only_cycles(o) : measure_all(o);
}

}  // namespace rowlock::bench

int main(int argc, char** argv) try {
  return rowlock::bench::run_bench(argc, argv);
} catch (std::exception const& e) {
  fmt::print(stderr, "rowlock-bench: {}\n", e.what());
  return 2;
}

#include "options.hpp"

#include <CLI/CLI.hpp>
#include <fstream>
#include <stdexcept>

namespace rowlock::bench {
namespace {

constexpr char const* footer = R"(
It measures what it is told the addresses of. tools/bench builds it, starts the servers, and calls it: call that.

FILE has lines NAME=ADDRESS; "#NAME=TEXT" says how that server was started, and is printed. Names:
  postgresql  a libpq keyword string            mariadb, mysql  mysql://USER:PASSWORD@HOST:PORT/DATABASE
  sqlite      a file, made if it is missing     redis, redis-durable, zookeeper, etcd  HOST:PORT
  rowlock     the program                       folder          for what is written meanwhile; also the servers' own

Exit status: 0 all that was judged was reached, 1 something was missed, 2 it could not be measured, 3 the machine is busy
with something else, 64 the command line is wrong)";

void read_places(std::string const& file, options& o) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("can't read " + file);
  o.run.where["places"] = file;
  for (std::string line; std::getline(in, line);) {
    auto const equals = line.find('=');
    if (equals == std::string::npos) continue;
    auto const value = line.substr(equals + 1);
    if (line.starts_with('#'))
      o.settings.emplace_back(line.substr(1, equals - 1), value);
    else
      o.run.where[line.substr(0, equals)] = value;
  }
}

}  // namespace

std::optional<int> parse(int argc, char** argv, options& o) {
  CLI::App app{"Measures rowlock beside other locks, interleaved round by round."};
  app.footer(footer);
  std::string places_file;
  app.add_option("--places", places_file, "Where the servers are")->type_name("FILE");
  app.add_flag("--quick", o.run.quick, "Short measurements, five rounds, and only what a bound needs");
  auto* const rounds = app.add_option("--rounds", o.run.rounds, "Rounds; default: 11, quick: 5")
                           ->type_name("N")
                           ->check(CLI::Range(1, 1000));
  int lasts = 0;
  app.add_option("--milliseconds", lasts,
                 "How long one measurement lasts, where the scenario does not say more; "
                 "default: 1000, quick: 300")
      ->type_name("N")
      ->check(CLI::Range(10, 600'000));
  app.add_option("--only", o.run.only,
                 "Only those whose SCENARIO/SYSTEM (as --list has them) contains PART; may be repeated")
      ->type_name("PART");
  app.add_flag_callback(
      "--delayed", [&o] { o.run.servers = distance::cloud; },
      "The servers are behind a cloud's delays: other bounds, and only what they are for");
  app.add_flag("--list", o.list, "Print each SCENARIO/SYSTEM, and end");
  app.add_flag("--anyway", o.anyway, "Measure also on a busy machine, without verdicts");
  app.add_flag("--json", o.json, "Print everything as JSON");
  app.add_option("--plots", o.plots, "Draw pictures (SVG, by gnuplot) into DIR")->type_name("DIR");
  app.add_option("--cycles", o.cycles, "Only do so many cycles of --system; for strace")->type_name("N");
  app.add_option("--system", o.system, "Of which system")->type_name("ID");
  try {
    app.parse(argc, argv);
    if (!places_file.empty()) read_places(places_file, o);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 64;
  }
  if (o.run.quick && rounds->empty()) o.run.rounds = 5;
  if (o.run.quick) o.run.lasts = std::chrono::milliseconds(300);
  if (lasts > 0) o.run.lasts = std::chrono::milliseconds(lasts);
  return {};
}

}  // namespace rowlock::bench

#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string_view>

#include "by_hand.hpp"
#include "duration.hpp"
#include "nemesis.hpp"
#include "wire.hpp"

namespace rowlock::torture {
namespace {

constexpr char const* footer = R"(
Processes with threads take and give back locks in tables of their own, torture_*, which are made and dropped. Meanwhile
the nemeses break things, one at a time. Each client writes down what it asks, gets, loses and gives back; afterwards a
checker reads all of it and says where a promise was broken. The tables that your programs use are not touched.

  rowlock-torture --db 'host=db.example dbname=app user=app'
  rowlock-torture --db sqlite:locks.db --workload semaphore --nemesis kill,stop --duration 5m --seed 7

Ctrl-C, SIGTERM and SIGHUP end it in order: what is broken is mended, the tables are dropped, nothing is judged. After
a SIGKILL the tables torture_* stay, and the role torture_client: the next run takes them over, and drops them.

The verdict is the last line, which says how much was seen.
Exit status: 0 no promise was broken, 1 one was, 2 it could not be found out: too little was seen, or the database was
away by itself; 64 the command line is wrong; 128 and the signal's number if a signal ended it)";

std::string all_nemeses() {
  std::string text = "What breaks things:";
  for (auto const& n : nemeses())
    text +=
        std::string("\n  ") + n.name + ": " + n.help + (*n.needs != 0 ? fmt::format(" ({})", n.needs) : "");
  return text + "\nwithout it: all that need nothing, or an option that is given; none: nothing is broken";
}

/// So long a lock may last, since some clients wait for three times as long for an answer.
constexpr std::chrono::milliseconds shortest_ttl{100};
constexpr std::chrono::minutes longest_ttl{20};

CLI::Validator duration(std::chrono::milliseconds& to, std::chrono::milliseconds least,
                        std::chrono::milliseconds most) {
  return {[&to, least, most](std::string& text) -> std::string {
            auto const parsed = tool::parse_duration(text);
            if (!parsed) return "'" + text + "' is no duration: " + tool::duration_forms;
            if (*parsed < least || *parsed > most)
              return fmt::format("{} is out of range: {} ms to {} s", text, least.count(),
                                 most.count() / 1000);
            to = *parsed;
            return {};
          },
          ""};
}

/// One of these words, as its number.
template <class Enum>
CLI::Validator one_of(std::map<std::string, Enum> words) {
  return {[words = std::move(words)](std::string& text) -> std::string {
            auto const found = words.find(text);
            if (found != words.end()) {
              text = std::to_string(static_cast<int>(found->second));
              return {};
            }
            std::string all;
            for (auto const& [word, value] : words) all += (all.empty() ? "" : ", ") + word;
            return "there is no " + text + "; there are: " + all;
          },
          ""};
}

std::vector<std::string> lines_of(std::string const& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

/// CLI11 does not break lines.
class formatter final : public CLI::Formatter {
  std::string make_option_desc(CLI::Option const* option) const override {
    constexpr std::size_t room = 84;
    std::string out;
    std::size_t column = 0;
    std::istringstream lines(CLI::Formatter::make_option_desc(option));
    for (std::string line; std::getline(lines, line);) {
      auto const indent = line.starts_with("  ") ? std::string("  ") : std::string();
      if (!out.empty()) out += '\n';
      out += indent;
      column = indent.size();
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        if (column > indent.size() && column + 1 + word.size() > room) {
          out += '\n';
          out += indent;
          out += indent;
          column = 2 * indent.size();
        } else if (column > indent.size()) {
          out += ' ';
          ++column;
        }
        out += word;
        column += word.size();
      }
    }
    return out;
  }
};

/// Others can read it (ps), also while the run goes on for hours.
std::string password_on_command_line(options const& o, int argc, char** argv) try {
  bool const by_option = std::any_of(argv + 1, argv + argc, [](char const* each) {
    return std::string_view(each) == "--db" || std::string_view(each).starts_with("--db=");
  });
  if (describe_url(o.db).has_password && by_option)
    return "--db has a password in it, which everybody on this machine could read (ps): give all of it by "
           "ROWLOCK_DB in the environment";
  for (auto const& each : o.members)
    if (describe_url(each).has_password)
      return "--member has a password in it, which everybody on this machine could read (ps): it belongs in "
             "PGPASSWORD, "
             "~/.pgpass, MYSQL_PWD, ~/.my.cnf, or a file that is named by ?password-file=PATH in a URL of "
             "MySQL's";
  return {};
} catch (error const& e) {  // neither can be used
  return e.what();
}

/// Options that contradict each other, or would be of no use.
std::string contradiction(options const& o) {
  if (!is_mutex(o.what) && o.how != options{}.how)
    return fmt::format("--strategy is for mutexes: it does not go with --workload {}", to_string(o.what));
  if (!is_mutex(o.what) && o.how_over != options{}.how_over)
    return fmt::format("--takeover is for mutexes: it does not go with --workload {}", to_string(o.what));
  if (o.asynchronous && !has_asynchronous_form(o.what))
    return fmt::format("--workload {} has no asynchronous calls: it does not go with --client async",
                       to_string(o.what));
  if (o.what == workload::quorum && o.members.size() < 2)
    return "--workload quorum needs two --member at least";
  if (o.what != workload::quorum && !o.members.empty()) return "--member is for --workload quorum";
  if (o.client_role && (o.db.starts_with("sqlite:") || !has_soci()))
    return "--client-role needs a server, and a build with SOCI";
  if ((o.client_role || writes_to_database(o.what)) && has_soci() && !can_be_reached_by_sql(o.db))
    return fmt::format(
        "{}: its sessions are SOCI's, which can't be told what is behind the ? in a URL of MySQL's: they "
        "would not be "
        "encrypted",
        o.client_role ? "--client-role" : fmt::format("--workload {}", to_string(o.what)));
  if (o.through_wire) try {
      (void)wire::port_in(o.db);
    } catch (std::exception const& e) {
      return e.what();
    }
  return {};
}

std::string wrong_nemesis(options const& o) {
  for (auto const& chosen : o.nemeses) {
    auto const& all = nemeses();
    auto const at = std::find_if(all.begin(), all.end(), [&](auto const& n) { return n.name == chosen; });
    if (chosen == "none") return "--nemesis none stands alone";
    if (at == all.end()) {
      std::string names;
      for (auto const& each : all) names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
      return fmt::format("--nemesis: there is no {}; there are: {}", chosen, names);
    }
    if (!at->possible(o)) return "--nemesis " + chosen + " needs " + at->needs;
  }
  return {};
}

}  // namespace

char const* to_string(workload w) noexcept {
  switch (w) {
    case workload::mutex:
      return "mutex";
    case workload::recursive_mutex:
      return "recursive_mutex";
    case workload::all_at_once:
      return "all_at_once";
    case workload::election:
      return "election";
    case workload::quorum:
      return "quorum";
    case workload::row_lock:
      return "row_lock";
    case workload::force:
      return "force";
    case workload::shared:
      return "shared";
    case workload::semaphore:
      return "semaphore";
    case workload::memory_set:
      return "memory_set";
    case workload::set:
      return "set";
    case workload::guarded_set:
      return "guarded_set";
  }
  return "?";
}

std::optional<int> parse(int argc, char** argv, options& o) {
  CLI::App app{"Tortures rowlock's locks on a database, and proves or refutes what they promise."};
  app.footer(footer);
  app.formatter(std::make_shared<formatter>());
  std::string ttl, length, nodes;
  app.add_option("--db", o.db,
                 "Where: what `rowlock --db` takes; or, if there is a password in it, by ROWLOCK_DB alone")
      ->envname("ROWLOCK_DB")
      ->required()
      ->type_name("URL");
  std::map<std::string, workload> workloads;
  for (auto const w : {workload::mutex, workload::recursive_mutex, workload::shared, workload::semaphore,
                       workload::all_at_once, workload::election, workload::quorum, workload::row_lock,
                       workload::memory_set, workload::set, workload::guarded_set, workload::force})
    workloads.emplace(to_string(w), w);
  app.add_option(
         "--workload", o.what,
         "What clients take: mutex, recursive_mutex, shared, semaphore, all_at_once (several mutexes, all or "
         "none), election, quorum (of --db and the --members). Or a mutex under which each reads a number, "
         "thinks, and writes it with one more: in memory (memory_set), in the database (set), there "
         "in a transaction that requires the lock (guarded_set), the same while an operator takes "
         "locks away by force (force), or in a transaction that locks the row (row_lock). What two at a "
         "time have written is counted as lost; guarded_set, force and row_lock promise that nothing is")
      ->transform(one_of(workloads))
      ->type_name("NAME");
  app.add_option("--strategy", o.how,
                 "How a mutex is taken: lease, unique_insert, row_lock. (row_lock has "
                 "no trust: whether two held it at a time is not judged)")
      ->transform(one_of(std::map<std::string, rowlock::strategy>{{"lease", strategy::lease},
                                                                  {"unique_insert", strategy::unique_insert},
                                                                  {"row_lock", strategy::row_lock}}))
      ->type_name("NAME");
  app.add_option("--takeover", o.how_over,
                 "When a mutex whose owner died may be taken: clock, or observed, which no clock can mislead")
      ->transform(one_of(
          std::map<std::string, takeover>{{"clock", takeover::clock}, {"observed", takeover::observed}}))
      ->type_name("NAME");
  app.add_option("--member", o.members, "Of workload quorum: a further database; two at least")
      ->type_name("URL");
  auto* const of_cluster =
      app.add_option(
             "--nodes", nodes,
             "A file with an address in each line: of one database, by each of the servers that keep it "
             "together. Clients take them in turns; --db is for the tables")
          ->check(CLI::ExistingFile)
          ->type_name("FILE");
  app.add_option("--client", o.asynchronous,
                 "How clients call: blocking, each with threads; or async, each with an event loop whose "
                 "coroutines take and give back by asynchronous calls, which are cancelled, refused and "
                 "dropped at random. For mutexes that are not recursive, shared and semaphore")
      ->transform(one_of(std::map<std::string, bool>{{"blocking", false}, {"async", true}}))
      ->type_name("NAME");
  app.add_option("--processes", o.processes, "Clients (5)")->check(CLI::Range(1, 100))->type_name("N");
  auto* const threads =
      app.add_option("--threads", o.threads, "Of each (2), or the coroutines of its loop (6)")
          ->check(CLI::Range(1, 100))
          ->type_name("N");
  app.add_option("--names", o.names, "Locks that they compete for (3)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_option("--ttl", ttl, "How long a lock lasts unless it is renewed (2s)")
      ->check(duration(o.ttl, shortest_ttl, longest_ttl))
      ->type_name("DURATION");
  app.add_option("--duration", length, "How long (30s)")
      ->check(duration(o.duration, std::chrono::milliseconds(1), std::chrono::days(36'500)))
      ->type_name("DURATION");
  app.add_option("--nemesis", o.nemeses, all_nemeses())->delimiter(',')->type_name("NAME,...");
  app.add_option(
         "--server", o.server,
         "A command that breaks and mends the server, when it gets one of the words kill, restart, "
         "pause, resume. With --nodes: kill, pause, resume or cut, and the number of a line; and mend, "
         "which returns when all of them belong to it again")
      ->type_name("COMMAND");
  app.add_flag(
         "--wire", o.through_wire,
         "Clients reach the server by way of this program, which can lose its answers. The server must be on "
         "127.0.0.1, and --db name its port")
      ->excludes(of_cluster);
  app.add_flag(
         "--client-role", o.client_role,
         "Clients log in as a role of their own, torture_client, with the least rights that locks need. "
         "It is made in the server, and dropped at the end: --db must be somebody who may do that. Each "
         "--member is reached as it says")
      ->excludes(of_cluster);
  app.add_option(
         "--clock", o.clock,
         "A file with 8 bytes, the seconds by which this program's wall clock differs from the machine's, "
         "where something preloaded sees to that, as tests/servers/moved_clock.cpp does")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--server-clock", o.server_clock, "The same for the server's clock")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option(
         "--small-disk", o.small_disk,
         "A folder on the disk that the database is on, and nothing else: it is filled up now and then. With "
         "--server that one is restarted afterwards, because some servers end on a full disk")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_flag_callback(
      "--no-migrations", [&] { o.migrations = false; },
      "The operator's reapers alone are at work: the tables stay at this version. On Galera say this, unless "
      "the cluster is "
      "yours alone: a migration locks tables on one node, and all nodes may wait for it");
  app.add_flag_callback(
      "--no-queues", [&] { o.wait_queues = false; },
      "Who waits stands in no line, but tries again and again");
  auto* const seed = app.add_option("--seed", o.seed,
                                    "Of the random choices; without it another each time, and it is printed")
                         ->type_name("N");
  app.add_option("--history", o.history,
                 "Keep what the clients wrote down in this folder, which must be empty or missing; without "
                 "it, only if a "
                 "promise was broken")
      ->type_name("DIR");
  app.add_option("--picture", o.picture,
                 "If a promise was broken: draw who held the lock when, as an SVG in this file")
      ->type_name("FILE");
  app.add_flag("--json", o.json, "Print the verdict as JSON");
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 64;
  }
  auto wrong = password_on_command_line(o, argc, argv);
  if (wrong.empty()) wrong = contradiction(o);
  if (!wrong.empty()) {
    app.exit(CLI::ValidationError(wrong, 64));
    return 64;
  }
  if (o.asynchronous && threads->empty()) o.threads = 6;
  if (!nodes.empty()) o.nodes = lines_of(nodes);
  if (!nodes.empty() && o.nodes.empty()) {
    app.exit(CLI::ValidationError("--nodes: there is no address in " + nodes, 64));
    return 64;
  }
  if (seed->empty()) o.seed = std::random_device{}();
  if (o.nemeses == std::vector<std::string>{"none"}) {
    o.nemeses.clear();
  } else if (o.nemeses.empty()) {
    for (auto const& n : nemeses())
      if (n.possible(o)) o.nemeses.emplace_back(n.name);
  }
  if (wrong = wrong_nemesis(o); !wrong.empty()) {
    app.exit(CLI::ValidationError(wrong, 64));
    return 64;
  }
  return {};
}

}  // namespace rowlock::torture

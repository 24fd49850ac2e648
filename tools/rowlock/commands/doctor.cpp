#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "duration.hpp"
#include "members.hpp"
#include "process/tree.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

struct doctor_command_options {
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::milliseconds> timeout;
};

constexpr char const* doctor_footer = R"(
Connects as `rowlock run` would, and says for each thing that it looks at: ok; warning (locks work, but what they promise
ends with a failover, or they could work better); error (locks do not work, or a lock may be held twice after a crash); or
unknown (needs ...: a privilege that this role lacks). What does not apply to the kind of database is not mentioned. The
line below says what to do.

Tries locks of its own in transactions that are rolled back, and leaves nothing behind: run it whenever you like, also where
locks are held.

  connection   can a connection be made
  schema       are the tables there, with a version that this program can use
  grants       may this role do all that locking takes
  writable     does the server, or the file, take writes
  isolation    do sessions run as rowlock sets them up
  timeouts     does the server end sessions or statements too early for the ttl
  row_security may this role see and write all rows (PostgreSQL)
  durability   is what was granted still there after a crash
  replicas     is it still there after a failover
  snapshots    does an old transaction keep dead rows (PostgreSQL)
  galera       is the node part of the cluster (MariaDB, MySQL)
  creators     may others create objects beside the tables (PostgreSQL)
  pooler       is there one in between, and how are its sessions used (PostgreSQL)
  clock        how far apart are this machine's clock and the database's
  keepalive    is a dead connection noticed within the ttl
  waiting      can those that wait line up, so that the next one is woken
  limits       do all programs that take permits of one name say the same limit
  tls          is the connection encrypted, where it leaves this machine
  index        are names found by a unique index, and compared byte for byte
  file_system  can locks of files be relied on there (SQLite)
  quarantine   is the database frozen, or is the quarantine off (not SQLite)
  takes        is a lock of each strategy taken, renewed and given back
  tables       what `rowlock migrate validate` finds, if this role may look

  subreaper    can `rowlock run` end all that its command leaves behind; said only if not

With several --db the same for each member of a quorum, and

  quorum       do they know each other, do enough of them vote, do they share a server, how far apart are their clocks

Examples:
  rowlock doctor                          before the first lock, and when something is strange
  rowlock doctor --ttl 5m                 for locks with a ttl of five minutes
  rowlock doctor --json                   for a monitoring system

Exit status: 0 no error; 1 at least one error, also if the database can't be reached; 64 the command line is wrong, 71 this
machine gives no more files or memory, 74 the output could not be written, 70 a bug of rowlock's.)";

fmt::text_style style_of(verdict v) {
  switch (v) {
    case verdict::ok:
      return fg(fmt::terminal_color::green);
    case verdict::warning:
    case verdict::unknown:
      return fg(fmt::terminal_color::yellow);
    default:
      return fg(fmt::terminal_color::red) | fmt::emphasis::bold;
  }
}

std::size_t count(std::vector<finding> const& all, verdict v) {
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](auto const& f) { return f.result == v; }));
}

std::string summary(std::vector<finding> const& all) {
  auto text = fmt::format("{} {}:", all.size(), all.size() == 1 ? "check" : "checks");
  auto const add = [&](verdict v, char const* one, char const* many) {
    if (auto const n = count(all, v); n > 0)
      text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", n, n == 1 ? one : many);
  };
  add(verdict::ok, "ok", "ok");
  add(verdict::warning, "warning", "warnings");
  add(verdict::error, "error", "errors");
  add(verdict::unknown, "unknown", "unknown");
  return text;
}

void print(std::vector<finding> const& all) {
  bool const colour = may_colour(STDOUT_FILENO);
  for (auto const& f : all) {
    auto const word = fmt::format("{:<7}", to_string(f.result));
    fmt::print("{}  {:<11}  {}\n", colour ? fmt::format(style_of(f.result), "{}", word) : word, f.check,
               printable(f.why));
    if (!f.remedy.empty()) fmt::print("{:22}{}\n", "", printable(f.remedy));
  }
  fmt::print("{}\n", summary(all));
}

void print_json(std::vector<finding> const& all) {
  auto checks = nlohmann::ordered_json::array();
  for (auto const& f : all)
    checks.push_back(
        {{"check", f.check}, {"verdict", to_string(f.result)}, {"why", f.why}, {"remedy", f.remedy}});
  nlohmann::ordered_json const out{{"ok", count(all, verdict::ok)},
                                   {"warnings", count(all, verdict::warning)},
                                   {"errors", count(all, verdict::error)},
                                   {"unknown", count(all, verdict::unknown)},
                                   {"checks", checks}};
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<finding> examined(database const& db, doctor_command_options const& options) {
  doctor_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  o.ttl = options.ttl.value_or(o.ttl);
  o.reply_timeout = options.timeout.value_or(o.reply_timeout);
  return doctor(source_from_url(db.url), o).examine();
}

/// Each member's checks, named after it, and what is wrong with them together. Too few that vote are an
/// error, and so is a database that is there twice.
std::vector<finding> examined(std::vector<database> const& each, doctor_command_options const& options) {
  std::vector<finding> all;
  for (std::size_t i = 0; i < each.size(); ++i)
    for (auto& f : examined(each[i], options)) {
      f.check = fmt::format("{}:{}", i + 1, f.check);
      all.push_back(std::move(f));
    }
  members m(each);
  auto const status = m.all().status();
  auto const voting = quorum_votes(status);
  auto const wrong = quorum_findings(status);
  for (auto const& what : wrong)
    all.push_back({"quorum", voting > status.size() / 2 ? verdict::warning : verdict::error, what,
                   "rowlock quorum status, and rowlock quorum --help"});
  if (wrong.empty())
    all.push_back(
        {"quorum", verdict::ok, fmt::format("all {} members vote, in one epoch", status.size()), ""});
  return all;
}

/// `rowlock run` goes on without it, and says so.
void look_at_subreaper(std::vector<finding>& all) {
  if (adopt_orphans()) {
    adopt_orphans(false);
    return;
  }
  all.push_back(
      {"subreaper", verdict::warning,
       fmt::format("this system has no child subreapers (prctl: {}): `rowlock run` neither waits for "
                   "nor ends a process that its command leaves behind without its parent",
                   std::strerror(errno)),
       "Run it outside of the emulator or sandbox, or let the sandbox allow PR_SET_CHILD_SUBREAPER; "
       "or see to it that the command waits for all that it starts."});
}

end_of_program examine(invocation& call, doctor_command_options const& options) {
  auto all = call.has_members() ? examined(call.use_members(), options)
                                : examined(call.use_database(invocation::unnamed::refused), options);
  look_at_subreaper(all);
  if (call.json)
    print_json(all);
  else
    print(all);
  return {count(all, verdict::error) == 0 ? 0 : 1, {}};
}

}  // namespace

void add_doctor(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<doctor_command_options>();
  auto* command = app.add_subcommand(
      "doctor", "Says whether locks will work on this database, and what to do if they will not");
  command->fallthrough();
  add_duration(*command, "--ttl", options->ttl, "The ttl of the locks that will be taken; default: 30s");
  add_duration(*command, "--timeout", options->timeout, "How long to wait for each reply; default: 5s");
  command->footer(doctor_footer);
  command->callback([&call, options] { call.chosen = [&call, options] { return examine(call, *options); }; });
}

}  // namespace rowlock::tool

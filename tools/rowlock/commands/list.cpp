#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <utility>
#include <variant>

#include "cli.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "holder.hpp"
#include "members.hpp"
#include "metrics.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

struct options {
  list_options locks;
  std::optional<std::chrono::milliseconds> held_longer_than;
  bool reaper = false;
  bool metrics = false;
};

/// Says of the first few that they can't be read, and how many others can't.
class unknown_locks {
 public:
  void look_at(lock_info const& lock) {
    constexpr int most_told = 3;
    if (!lock.unknown.empty() && ++count_ <= most_told)
      say(fmt::format("warning: '{}' can't be read: {}", lock.name, shortened(lock.unknown)));
    others_ = count_ - most_told;
  }
  ~unknown_locks() {
    if (others_ > 0) say(fmt::format("warning: {} others can't be read either", others_));
  }

 private:
  int count_ = 0;
  int others_ = 0;
};

std::size_t names_of(std::vector<lock_info> const& locks) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < locks.size(); ++i)
    count += i == 0 || locks[i].name != locks[i - 1].name ? 1 : 0;
  return count;
}

/// Page by page: there may be more than fit into memory.
void for_each_page(invocation& call, list_options wanted,
                   std::function<void(std::vector<lock_info> const&)> const& use) {
  constexpr std::size_t names_in_page = 1000;
  auto const& db = call.use_database();
  std::optional<lock_manager> manager;
  with_standard_file(db, [&] {
    manager_options o;
    o.table_prefix = db.table_prefix;
    o.schema = db.schema;
    manager.emplace(db.url, o);
    manager->connect();
  });
  unknown_locks unknown;
  auto left = wanted.limit == 0 ? std::numeric_limits<std::size_t>::max() : wanted.limit;
  while (left > 0) {
    wanted.limit = std::min(left, names_in_page);
    auto const locks = manager->list(wanted);
    if (locks.empty()) return;
    for (auto const& lock : locks) unknown.look_at(lock);
    use(locks);
    if (names_of(locks) < wanted.limit) return;
    left -= wanted.limit;
    wanted.after = locks.back().name;
  }
}

/// Not of a server that takes no writes: it has no pulses.
std::optional<quarantine_state> read_quarantine(invocation& call) try {
  return quarantine_of(call.use_database());
} catch (error const& e) {
  if (e.reason() != errc::read_only) throw;
  return std::nullopt;
}

/// What holds for all of them.
void say_quarantine(invocation& call) try {
  auto const now = read_quarantine(call);
  auto const what = now ? quarantine_in_words(*now) : "";
  if (!what.empty()) say(what);
} catch (error const& e) {
  say(fmt::format("warning: whether it grants locks is not known: {}", e.what()));
}

/// What it has of a lock that several may hold.
std::string part_of(lock_info const& lock) {
  auto const& h = lock.holder;
  if (h.units == 0) return state_of(lock);
  auto const part = h.strategy == strategy::shared ? std::string(h.units == 1 ? "reads" : "writes")
                                                   : fmt::format("{} of {}", h.units, h.limit);
  return std::string_view(state_of(lock)) == "held" ? part : fmt::format("{}, {}", state_of(lock), part);
}

std::vector<std::string> row_of(lock_info const& lock) {
  auto const& h = lock.holder;
  if (!lock.unknown.empty())
    return {printable(lock.name), state_of(lock), "", "", "", "", printable(shortened(lock.unknown))};
  if (!lock.held && !h.done)
    return {printable(lock.name), state_of(lock), "", "", "", std::to_string(h.token.value), ""};
  auto const left = !traits(h.strategy).has_expiry ? std::string("with its session")
                    : h.expires_in.count() > 0     ? format_duration(h.expires_in)
                                                   : format_duration(-h.expires_in) + " ago";
  return {printable(lock.name),
          part_of(lock),
          printable(owner_of(h)),
          since(h),
          left,
          std::to_string(h.token.value),
          printable(shortened(h.note))};
}

/// Under the lock's row: how many wait, and the first few of them.
std::vector<std::string> waiting_lines(lock_info const& lock) {
  constexpr std::size_t most_told = 5;
  if (lock.waiting.value_or(0) == 0) return {};
  std::vector<std::string> lines{fmt::format("  waiting: {}", *lock.waiting)};
  for (auto const& w : lock.waiters) {
    if (lines.size() > most_told) break;
    lines.push_back(printable(fmt::format("    database session {}{}{}", w.session,
                                          w.host.empty() ? "" : " from " + w.host,
                                          w.application.empty() ? "" : " (" + w.application + ")")));
  }
  if (auto const told = lines.size() - 1; told < lock.waiters.size())
    lines.push_back(fmt::format("    and {} more", lock.waiters.size() - told));
  return lines;
}

std::optional<last_reap> read_last_reap(invocation& call) {
  auto const& db = call.use_database();
  std::optional<last_reap> last;
  with_standard_file(db, [&] {
    reaper_options o;
    o.table_prefix = db.table_prefix;
    o.schema = db.schema;
    o.reply_timeout = manager_options{}.reply_timeout;  // a run of the reaper waits longer, a look does not
    last = rowlock::reaper(source_from_url(db.url), o).last();
  });
  return last;
}

/// What the run wrote down, a number each, nested names joined: "deleted.lease 12". Whatever it was: another
/// version may have written it.
std::string in_words(nlohmann::ordered_json const& report) {
  std::string text;
  for (auto const& [key, value] : report.items()) {
    if (value.is_object()) {
      for (auto const& [inner, one] : value.items())
        text += fmt::format("  {}.{}: {}\n", printable(key), printable(inner), printable(one.dump()));
    } else {
      text += fmt::format("  {}: {}\n", printable(key),
                          printable(value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  return text;
}

end_of_program list_reaper(invocation& call) {
  auto const last = read_last_reap(call);
  if (!last) {
    fmt::print("{}\n", call.json ? "null" : "The reaper has not run yet.");
    return {};
  }
  auto const report = nlohmann::ordered_json::parse(last->report, nullptr, false);
  auto const at = [](std::chrono::system_clock::time_point t) { return iso_utc(t); };
  if (call.json) {
    nlohmann::ordered_json const out{{"started_at", at(last->started_at)},
                                     {"finished_at", at(last->finished_at)},
                                     {"host", last->host},
                                     {"pid", last->pid},
                                     {"report", report.is_discarded() ? nlohmann::ordered_json() : report}};
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {};
  }
  fmt::print("The reaper ran last from {} to {}, on {} as pid {}:\n{}", utc(last->started_at),
             utc(last->finished_at), printable(last->host), last->pid,
             report.is_object() ? in_words(report) : "  " + printable(last->report) + "\n");
  return {};
}

end_of_program list_metrics(invocation& call, options const& o) {
  if (call.json) throw failure(exit_usage, "--metrics has a format of its own: leave out --json");
  lock_counts counts(o.locks.idle);
  auto wanted = o.locks;
  wanted.waiters = false;
  for_each_page(call, wanted, [&](auto const& locks) {
    for (auto const& lock : locks) counts.add(lock);
  });
  database_state state{.reaped = read_last_reap(call), .grants = read_quarantine(call), .snapshot = {}};
  auto const& db = call.use_database();
  with_standard_file(db, [&] { state.snapshot = doctor(source_from_url(db.url)).oldest_snapshot(); });
  fmt::print("{}", counts.metrics(state));
  return {};
}

/// What a member says of a lock.
std::string at_member(lock_info const& lock) {
  auto const left = lock.holder.expires_in;
  return fmt::format("{} {}", state_of(lock), left.count() > 0 ? format_duration(left) : "0s");
}

bool has_answered(std::variant<std::vector<lock_info>, std::string> const& member) {
  return std::holds_alternative<std::vector<lock_info>>(member);
}

/// A lock that a majority has granted is seen at one member at least, if a majority has answered.
end_of_program end_of_list(std::size_t answered, std::size_t all) {
  if (answered > all / 2) return {};
  say(fmt::format("{} of {} members could be asked, and {} are needed: what is held is not known", answered,
                  all, all / 2 + 1));
  return {exit_unreachable, {}};
}

/// All members side by side: a row for each name, a column for each member.
end_of_program list_members(invocation& call, options const& o) {
  if (o.reaper || o.metrics || o.locks.idle || o.locks.done || o.locks.limit > 0 || o.held_longer_than)
    throw failure(exit_usage,
                  "--all, --done, --held-longer-than, --limit, --reaper and --metrics are of one database: "
                  "give one --db");
  members m(call.use_members());
  auto const lists = m.all().list(o.locks);
  auto const answered = static_cast<std::size_t>(std::count_if(lists.begin(), lists.end(), has_answered));
  std::map<std::string, std::vector<lock_info const*>> names;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    auto const* locks = std::get_if<std::vector<lock_info>>(&lists[i]);
    if (locks == nullptr) say(fmt::format("warning: member {}: {}", i + 1, std::get<std::string>(lists[i])));
    if (locks == nullptr) continue;
    for (auto const& l : *locks) {
      auto& each = names[l.name];
      each.resize(lists.size());
      each[i] = &l;
    }
  }
  if (call.json) {
    auto out = nlohmann::ordered_json::array();
    for (auto const& [name, each] : names) {
      auto list = nlohmann::ordered_json::array();
      for (std::size_t i = 0; i < each.size(); ++i)
        list.push_back(each[i] != nullptr ? to_json(*each[i])
                       : has_answered(lists[i])
                           ? nlohmann::ordered_json()
                           : nlohmann::ordered_json{{"trouble", std::get<std::string>(lists[i])}});
      out.push_back({{"name", name}, {"members", list}});
    }
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return end_of_list(answered, lists.size());
  }
  std::vector<std::string> heading{"NAME"};
  for (std::size_t i = 0; i < lists.size(); ++i) heading.push_back(std::to_string(i + 1));
  for (auto const* more : {"OWNER", "TOKEN", "NOTE"}) heading.emplace_back(more);
  std::vector<std::vector<std::string>> rows{heading};
  for (auto const& [name, each] : names) {
    std::vector<std::string> row{printable(name)};
    lock_info const* newest = nullptr;
    for (std::size_t i = 0; i < each.size(); ++i) {
      row.push_back(each[i] != nullptr ? at_member(*each[i]) : has_answered(lists[i]) ? "-" : "?");
      if (each[i] != nullptr &&
          (newest == nullptr || each[i]->holder.token.value > newest->holder.token.value))
        newest = each[i];
    }
    row.push_back(printable(owner_of(newest->holder)));
    row.push_back(std::to_string(newest->holder.token.value));
    row.push_back(printable(shortened(newest->holder.note)));
    rows.push_back(std::move(row));
  }
  fmt::print("{}", table(rows, may_colour(STDOUT_FILENO)));
  return end_of_list(answered, lists.size());
}

std::string indented(std::string_view lines) {
  std::string out = "\n  ";
  for (char const c : lines) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

/// An array, an element after the other.
void print_json(invocation& call, list_options const& wanted) {
  char const* before = "[";
  for_each_page(call, wanted, [&](auto const& locks) {
    for (auto const& lock : locks)
      fmt::print("{}{}", std::exchange(before, ","),
                 indented(to_json(lock).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
  });
  fmt::print("{}", *before == '[' ? "[]\n" : "\n]\n");
}

void print_table(invocation& call, list_options const& wanted) {
  columns table(may_colour(STDOUT_FILENO));
  std::vector<std::vector<std::string>> rows{
      {"NAME", "STATE", "OWNER", "SINCE", "EXPIRES-IN", "TOKEN", "NOTE"}};
  for_each_page(call, wanted, [&](auto const& locks) {
    for (auto const& lock : locks) {
      rows.push_back(row_of(lock));
      for (auto& line : waiting_lines(lock)) rows.push_back({std::move(line)});
    }
    fmt::print("{}", table.lines(std::exchange(rows, {})));
  });
  fmt::print("{}", table.lines(rows));  // the heading, if there was nothing
}

end_of_program list(invocation& call, options& o) {
  o.locks.held_longer_than = o.held_longer_than.value_or(o.locks.held_longer_than);
  if (call.has_members()) return list_members(call, o);
  if (o.reaper) return list_reaper(call);
  if (o.metrics) return list_metrics(call, o);
  if (call.json)
    print_json(call, o.locks);
  else
    print_table(call, o.locks);
  say_quarantine(call);
  return {};
}

}  // namespace

void add_list(CLI::App& app, invocation& call) {
  auto const o = std::make_shared<options>();
  auto* list_command =
      app.add_subcommand("list", "Shows who holds which locks, since when, and how long at most");
  list_command->fallthrough();
  list_command->add_option("GLOB", o->locks.glob,
                           "Only names that match, as the shell matches: 'job-*' (quote it)");
  list_command->add_flag("--all", o->locks.idle,
                         "Also idle names: free, but remembered with their last token");
  list_command->add_flag("--done", o->locks.done, "Also names that are recorded as done (rowlock once)");
  add_duration(*list_command, "--held-longer-than", o->held_longer_than,
               "Only locks that are held since before that, by the database's clock");
  list_command->add_option("--limit", o->locks.limit, "At most so many names, the first ones in byte order")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  list_command->add_flag("--reaper", o->reaper, "Instead: what `rowlock reap` did last, and when")
      ->excludes("--all")
      ->excludes("--done")
      ->excludes("--held-longer-than")
      ->excludes("--limit")
      ->excludes("GLOB");
  list_command
      ->add_flag("--metrics", o->metrics,
                 "Instead, for Prometheus: how many locks there are, whether locks are granted, and more")
      ->excludes("--reaper")
      ->excludes("--done")
      ->excludes("--held-longer-than")
      ->excludes("--limit")
      ->excludes("GLOB");
  list_command->footer(R"(
STATE is held, expired (its time is over and nobody has taken it yet), revoked (held, and to be given back), idle, done
(nobody holds it: OWNER did the work, and was done at SINCE; NOTE is the result; kept for EXPIRES-IN more), or unknown: a
later version of rowlock, or a person, has written something into the row that this version can't read (NOTE says what, or
"why" of --json). A lock that several may hold has a line for each of them, and STATE says what it has: reads, writes, or 1
of 3. EXPIRES-IN is the longest that the lock can stay taken if its holder does not renew it again. NOTE is cut after 100
characters, but not in --json.
The list is read page by page, so that it may be of any length: what changes meanwhile is in it or not. --held-longer-than
leaves out locks of which the database does not tell since when they are held (row_lock on MySQL and MariaDB).
Under a lock stands how many processes wait for it in the server's line, where the database tells that ("waiting" of --json:
null where it does not), and the sessions in which they do.

With several --db: the locks of a quorum, and what each member says of them, in a column of its own; - it is free there, ? the
member does not answer. Why is told on standard error; --json tells it there, too, and as "trouble" beside each name that another
member has: where none has any it prints [] alone. If less than a majority answers, the exit status is 69.

Examples:
  rowlock list
  rowlock list 'nightly-*' --json
  rowlock list --held-longer-than 2h
  rowlock list --done 'invoices-*'
  rowlock list --reaper
  rowlock list --metrics >rowlock.new && mv rowlock.new rowlock.prom

Exit status: 0 done, also if nothing is held; 64, 69, 70, 71, 74, 75, 77, 78 as for all commands (rowlock --help).)");
  list_command->callback([&call, o] { call.chosen = [&call, o] { return list(call, *o); }; });
}

}  // namespace rowlock::tool

#include "run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "by_hand.hpp"
#include "checker.hpp"
#include "history.hpp"
#include "ledger.hpp"
#include "nemesis.hpp"
#include "options.hpp"
#include "own_tables.hpp"
#include "picture.hpp"
#include "printable.hpp"
#include "signals.hpp"
#include "wire.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

/// Where the histories are: given, or of our own.
class folder {
 public:
  explicit folder(std::string const& given) : ours_(given.empty()) {
    if (ours_) {
      auto text = (std::filesystem::temp_directory_path() / "rowlock-torture-XXXXXX").string();
      if (::mkdtemp(text.data()) == nullptr) throw std::system_error(errno, std::generic_category(), text);
      path_ = text;
      return;
    }
    path_ = given;
    std::filesystem::create_directories(path_);
    if (!std::filesystem::is_empty(path_)) throw std::runtime_error("--history: " + given + " is not empty");
  }
  folder(folder const&) = delete;
  folder& operator=(folder const&) = delete;
  ~folder() {
    std::error_code ignored;
    if (ours_) std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path const& path() const noexcept { return path_; }
  void keep() noexcept { ours_ = false; }

 private:
  bool ours_;
  std::filesystem::path path_;
};

/// The databases are members of a quorum as long as this exists. It keeps no threads: clients are forked.
class voters {
 public:
  explicit voters(options const& o) : options_(o) {
    ask([&](quorum& q) { q.init(std::max<std::chrono::milliseconds>(o.ttl, 1s)); });
  }
  voters(voters const&) = delete;
  voters& operator=(voters const&) = delete;
  ~voters() {
    try {
      ask([](quorum& q) { (void)q.drop(); });
    } catch (std::exception const& e) {
      on_stderr(fmt::format("the databases are still members of a quorum: {}\n", printable(e.what())));
    }
  }

 private:
  void ask(std::function<void(quorum&)> const& what) const {
    manager_options mo;
    mo.table_prefix = "torture_";
    std::vector<std::unique_ptr<lock_manager>> managers;
    managers.push_back(std::make_unique<lock_manager>(source_from_url(options_.db), mo));
    for (auto const& each : options_.members)
      managers.push_back(std::make_unique<lock_manager>(source_from_url(each), mo));
    std::vector<lock_manager*> all;
    all.reserve(managers.size());
    for (auto const& each : managers) all.push_back(each.get());
    quorum q(all);
    what(q);
  }
  options const& options_;
};

/// The clients' own, as long as this exists.
class role_of_clients {
 public:
  explicit role_of_clients(options const& o)
      : db_(o.db), address_(make_client_role(o.db, writes_to_database(o.what))) {}
  role_of_clients(role_of_clients const&) = delete;
  role_of_clients& operator=(role_of_clients const&) = delete;
  ~role_of_clients() {
    try {
      drop_client_role(db_);
    } catch (std::exception const& e) {
      on_stderr(fmt::format("the role torture_client is still there: {}\n", printable(e.what())));
    }
  }
  std::string const& address() const noexcept { return address_; }

 private:
  std::string db_;
  std::string address_;
};

/// PostgreSQL after a crash, and each database whose tables a migration has made anew. SQLite never.
bool may_quarantine(options const& o) {
  auto const has = [&](std::string const& nemesis) {
    return std::find(o.nemeses.begin(), o.nemeses.end(), nemesis) != o.nemeses.end();
  };
  bool const migrates = has("operator") && o.migrations;
  return !o.db.starts_with("sqlite:") && (has("server-kill") || has("full-disk") || migrates);
}

promise promise_of(options const& o) {
  bool const trusts = o.what != workload::row_lock && (!is_mutex(o.what) || traits(o.how).has_expiry);
  bool const in_turn =
      o.what != workload::shared && o.what != workload::semaphore && o.what != workload::force;
  bool const any_clock = o.how_over == takeover::observed || o.what == workload::quorum;
  bool const misled = !any_clock && std::count(o.nemeses.begin(), o.nemeses.end(), "server-clock") > 0;
  promise p;
  p.limit = trusts ? limit_of(o.what) : std::numeric_limits<std::int64_t>::max();
  p.overlaps_happen = o.what == workload::force || misled;
  p.tokens_rise = trusts && in_turn && !misled;
  p.ttl = o.ttl;
  // Who goes by what it has observed waits for up to twice the ttl.
  p.longest_gap = (any_clock || misled ? 2 * o.ttl + o.ttl / 10 : o.ttl) + 5s;
  // Nothing is granted until the longest lease that can have been forgotten is over, and a second.
  if (may_quarantine(o)) p.longest_gap += std::max<std::chrono::nanoseconds>(o.ttl, keepers_ttl) + 1s;
  // Who is stopped in the middle of a write has the whole file.
  p.stops_hit_everybody = o.db.starts_with("sqlite:");
  p.together = o.what == workload::all_at_once || o.what == workload::row_lock;
  return p;
}

bool proven_broken(verdict const& v) {
  return std::any_of(v.violations.begin(), v.violations.end(),
                     [](violation const& each) { return !each.in_outage; });
}

/// Fewer hand-overs show nothing.
constexpr std::int64_t enough = 10;

/// Most calls found no database, though no fault was under way: little was tried.
bool was_away(verdict const& v) { return v.outages > v.acquisitions + v.refused; }

char const* to_string(outcome result) {
  switch (result) {
    case outcome::kept:
      return "kept";
    case outcome::broken:
      return "broken";
    case outcome::unknown:
      return "unknown";
  }
  return "?";
}

/// The strategy where it was chosen.
std::string what_was_taken(options const& o) {
  return is_mutex(o.what) ? fmt::format("{} of {}", to_string(o.what), to_string(o.how)) : to_string(o.what);
}

std::string in_words(verdict const& v) {
  auto const seen =
      fmt::format("in {} acquisitions, {} hand-overs and {} faults", v.acquisitions, v.hand_overs, v.faults);
  if (proven_broken(v))
    return fmt::format("{} times a promise was broken {}",
                       std::count_if(v.violations.begin(), v.violations.end(),
                                     [](violation const& each) { return !each.in_outage; }),
                       seen);
  if (!v.violations.empty() || was_away(v))
    return "it could not be found out, because the database was away by itself, " + seen;
  if (v.hand_overs < enough) return "it could not be found out, because it was too little: " + seen;
  return "no promise was broken " + seen;
}

nlohmann::ordered_json as_json(record const& r) {
  nlohmann::ordered_json j{{"at_s", static_cast<double>(r.at) / 1e9},
                           {"what", to_string(r.what)},
                           {"process", r.process},
                           {"life", r.life},
                           {"thread", r.thread},
                           {"turn", r.turn},
                           {"lock", r.name},
                           {"token", r.token}};
  if (r.trusted_until != 0) j["trusted_until_s"] = static_cast<double>(r.trusted_until) / 1e9;
  if (r.term[0] != 0) j["term"] = r.term;
  if (r.text[0] != 0) j["text"] = r.text;
  return j;
}

nlohmann::ordered_json as_json(options const& o, verdict const& v, std::string const& kept) {
  auto violations = nlohmann::ordered_json::array();
  for (auto const& each : v.violations) {
    auto records = nlohmann::ordered_json::array();
    for (auto const& r : each.records) records.push_back(as_json(r));
    violations.push_back(
        {{"rule", each.rule}, {"text", each.text}, {"in_outage", each.in_outage}, {"records", records}});
  }
  return {{"version", ROWLOCK_VERSION},
          {"workload", to_string(o.what)},
          {"strategy", to_string(o.how)},
          {"seed", o.seed},
          {"seconds", static_cast<double>(o.duration.count()) / 1e3},
          {"acquisitions", v.acquisitions},
          {"hand_overs", v.hand_overs},
          {"refused", v.refused},
          {"errors", v.errors},
          {"outages", v.outages},
          {"unexplained", v.unexplained},
          {"losses", v.losses},
          {"faults", v.faults},
          {"faults_in_flight", v.faults_in_flight},
          {"deeds", v.deeds},
          {"failed_work", v.failed_work},
          {"overlaps", v.overlaps},
          {"added", v.added},
          {"lost_additions", v.lost_additions},
          {"longest_gap_ms", std::chrono::duration_cast<std::chrono::milliseconds>(v.longest_gap).count()},
          {"verdict", to_string(status_of(v))},
          {"violations", violations},
          {"history", kept}};
}

/// The first of each rule before the others: only some are shown.
std::vector<violation const*> in_order(std::vector<violation> const& violations) {
  std::vector<violation const*> all;
  std::vector<violation const*> others;
  all.reserve(violations.size());
  others.reserve(violations.size());
  for (auto const& each : violations) {
    bool const known =
        std::any_of(all.begin(), all.end(), [&](violation const* one) { return one->rule == each.rule; });
    (known ? others : all).push_back(&each);
  }
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

void print(options const& o, verdict const& v, std::string const& kept) {
  fmt::print(
      "{} acquisitions, {} refused, {} errors, {} losses; {} faults, {} of them hit a request in flight;\n"
      "longest without a grant, though somebody waited and nothing was broken: {} ms\n",
      v.acquisitions, v.refused, v.errors, v.losses, v.faults, v.faults_in_flight,
      std::chrono::duration_cast<std::chrono::milliseconds>(v.longest_gap).count());
  fmt::print("{} times a lock went from one thread to another\n", v.hand_overs);
  if (v.deeds > 0) fmt::print("{} times an operator worked on the tables\n", v.deeds);
  if (v.failed_work > 0) fmt::print("{} times an operator could not do his work\n", v.failed_work);
  if (v.unexplained > 0)
    fmt::print("{} calls failed without a fault, one of them with: {}\n", v.unexplained,
               printable(v.first_unexplained));
  if (v.outages > 0)
    fmt::print("{} times the database was away or did not serve, without a fault\n", v.outages);
  if (v.overlaps > 0) fmt::print("{} times two had a lock at a time, by force\n", v.overlaps);
  if (v.added > 0)
    fmt::print("{} times a number was read and written with one more: {} of these are lost\n", v.added,
               v.lost_additions);
  constexpr std::size_t shown = 10;
  auto const all = in_order(v.violations);
  for (std::size_t i = 0; i < all.size() && i < shown; ++i)
    fmt::print("{}: {}: {}\n", all[i]->in_outage ? "while the database was away" : "broken", all[i]->rule,
               printable(all[i]->text));
  if (v.violations.size() > shown) fmt::print("and {} more\n", v.violations.size() - shown);
  if (!kept.empty()) fmt::print("The history is in {}\n", kept);
  fmt::print("{}, seed {}: {}\n", what_was_taken(o), o.seed, in_words(v));
}

/// Rather than at the end of a long run.
void look_for_place(std::string const& file) {
  if (file.empty()) return;
  auto const folder = std::filesystem::absolute(file).parent_path();
  std::error_code none;
  auto const& place = std::filesystem::exists(file, none) ? std::filesystem::path(file) : folder;
  if (::access(place.c_str(), W_OK) != 0 || std::filesystem::is_directory(file, none))
    throw std::runtime_error("--picture: can't write to " + file);
}

/// On a terminal, in one line.
class progress {
 public:
  explicit progress(std::chrono::milliseconds whole) : whole_(whole) { show("nobody has had a lock yet"); }
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() { show({}); }
  void tell(std::string const& fault) {
    if (faults_++ == 0) began_ = boot_clock::now();
    auto const passed = std::chrono::duration_cast<std::chrono::seconds>(boot_clock::now() - began_);
    show(fmt::format("{} s of {} s, {} faults: {}", passed.count(), whole_.count() / 1000, faults_, fault));
  }

 private:
  void show(std::string const& text) const {
    if (terminal_) on_stderr(fmt::format("\r\033[K{}", text));
  }
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::chrono::milliseconds whole_;
  boot_time_point began_;
  int faults_ = 0;
};

/// Of the first that can be drawn.
void draw(std::filesystem::path const& histories, verdict const& v, std::string const& file) {
  auto const shown = std::find_if(v.violations.begin(), v.violations.end(),
                                  [](violation const& each) { return !each.records.empty(); });
  if (file.empty() || shown == v.violations.end()) return;
  std::ofstream out(file);
  if (!(out << picture(read_history(histories), *shown) << std::flush))
    throw std::runtime_error("can't write to " + file);
}

}  // namespace

outcome status_of(verdict const& v) {
  if (proven_broken(v)) return outcome::broken;
  return v.violations.empty() && v.hand_overs >= enough && !was_away(v) ? outcome::kept : outcome::unknown;
}

verdict torture(options const& o, std::filesystem::path const& folder,
                std::function<void(std::string const&)> const& tell) {
  verdict v;
  std::optional<sums> written_down;
  std::string why;
  // What is of our own is gone before a long history is judged.
  {
    own_tables const ours(o.db);
    std::vector<std::unique_ptr<own_tables>> theirs;
    for (auto const& each : o.members) theirs.push_back(std::make_unique<own_tables>(each));
    std::optional<voters> vote;
    if (o.what == workload::quorum) vote.emplace(o);
    auto const written = make_ledger(o);
    std::optional<role_of_clients> their_role;
    {
      std::optional<wire> between;
      auto led = o;
      if (o.client_role) led.db = their_role.emplace(o).address();
      if (o.through_wire) led.db = between.emplace(led.db).address();
      crew clients(led, *written, folder, between ? &*between : nullptr, o.db);
      clients.torture(tell);
      clients.finish();
      v.failed_work = clients.failed_work();
    }
    try {
      written_down = written->read();
    } catch (std::exception const& e) {  // the database is away: what was written down by the clients is not
      why = e.what();
    }
  }
  auto const failed_work = v.failed_work;
  v = check(read_history(folder), promise_of(o));
  v.failed_work = failed_work;
  if (v.acquisitions == 0) throw std::runtime_error("nobody ever got a lock: there is nothing to judge");
  if (!written_down) {
    if (!proven_broken(v)) throw std::runtime_error("what was written under the locks can't be read: " + why);
    return v;
  }
  v.added = written_down->added;
  v.lost_additions = written_down->lost;
  // Sections that fail are none of a lock's faults, but where all do, nothing was looked at.
  if (v.added == 0 && writes(o.what))
    throw std::runtime_error("no client could ever write under its lock, by SOCI: there is nothing to judge");
  if (keeps_what_is_written(o.what))
    for (auto& each : violations_of(*written_down)) v.violations.push_back(std::move(each));
  return v;
}

int run(options const& o) {
  note_signals();
  look_for_place(o.picture);
  folder where(o.history);
  auto const v = [&] {
    progress shown(o.duration);
    return torture(o, where.path(), [&](std::string const& what) { shown.tell(what); });
  }();
  auto const status = status_of(v);
  if (!v.violations.empty()) where.keep();
  auto const kept = !o.history.empty() || !v.violations.empty() ? where.path().string() : std::string();
  if (o.json)
    fmt::print("{}\n",
               as_json(o, v, kept).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else
    print(o, v, kept);
  // A verdict that nobody hears is none.
  if (std::fflush(stdout) != 0) throw std::runtime_error("the verdict can't be written to the output");
  draw(where.path(), v, o.picture);
  return static_cast<int>(status);
}

}  // namespace rowlock::torture

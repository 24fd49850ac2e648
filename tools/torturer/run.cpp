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
#include "picture.hpp"
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

/// The tables of our own; dropped at the end, if the database lets us.
class tables {
 public:
  explicit tables(std::string const& db) : migrator_(source_from_url(db), {.table_prefix = "torture_"}) {
    migrator_.up();
  }
  tables(tables const&) = delete;
  tables& operator=(tables const&) = delete;
  ~tables() {
    try {
      migrator_.down(0, true, true);
    } catch (std::exception const& e) {
      fmt::print(stderr, "the tables torture_* are still there: {}\n", e.what());
    }
  }

 private:
  migrator migrator_;
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
      fmt::print(stderr, "the databases are still members of a quorum: {}\n", e.what());
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
      fmt::print(stderr, "the role torture_client is still there: {}\n", e.what());
    }
  }
  std::string const& address() const noexcept { return address_; }

 private:
  std::string db_;
  std::string address_;
};

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
  // Who is stopped in the middle of a write has the whole file.
  p.stops_hit_everybody = o.db.starts_with("sqlite:");
  p.together = o.what == workload::all_at_once || o.what == workload::row_lock;
  return p;
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
    violations.push_back({{"rule", each.rule}, {"text", each.text}, {"records", records}});
  }
  return {{"version", ROWLOCK_VERSION},
          {"workload", to_string(o.what)},
          {"strategy", to_string(o.how)},
          {"seed", o.seed},
          {"seconds", static_cast<double>(o.duration.count()) / 1e3},
          {"acquisitions", v.acquisitions},
          {"refused", v.refused},
          {"errors", v.errors},
          {"losses", v.losses},
          {"faults", v.faults},
          {"faults_in_flight", v.faults_in_flight},
          {"deeds", v.deeds},
          {"overlaps", v.overlaps},
          {"added", v.added},
          {"lost_additions", v.lost_additions},
          {"longest_gap_ms", std::chrono::duration_cast<std::chrono::milliseconds>(v.longest_gap).count()},
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
  if (v.deeds > 0) fmt::print("{} times an operator worked on the tables\n", v.deeds);
  if (v.overlaps > 0) fmt::print("{} times two had a lock at a time, by force\n", v.overlaps);
  if (v.added > 0)
    fmt::print("{} times a number was read and written with one more: {} of these are lost\n", v.added,
               v.lost_additions);
  constexpr std::size_t shown = 10;
  auto const all = in_order(v.violations);
  for (std::size_t i = 0; i < all.size() && i < shown; ++i)
    fmt::print("broken: {}: {}\n", all[i]->rule, all[i]->text);
  if (v.violations.size() > shown) fmt::print("and {} more\n", v.violations.size() - shown);
  if (!kept.empty()) fmt::print("The history is in {}\n", kept);
  fmt::print("{} of {}, seed {}: {}\n", to_string(o.what), to_string(o.how), o.seed,
             v.violations.empty() ? "no promise was broken"
                                  : fmt::format("{} times a promise was broken", v.violations.size()));
}

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

verdict torture(options const& o, std::filesystem::path const& folder,
                std::function<void(std::string const&)> const& tell) {
  tables const ours(o.db);
  std::vector<std::unique_ptr<tables>> theirs;
  for (auto const& each : o.members) theirs.push_back(std::make_unique<tables>(each));
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
  }
  auto v = check(read_history(folder), promise_of(o));
  if (v.acquisitions == 0) throw std::runtime_error("nobody ever got a lock: there is nothing to judge");
  auto const written_down = written->read();
  v.added = written_down.added;
  v.lost_additions = written_down.lost;
  // Sections that fail are none of a lock's faults, but where all do, nothing was looked at.
  if (v.added == 0 && writes(o.what))
    throw std::runtime_error("no client could ever write under its lock, by SOCI: there is nothing to judge");
  if (keeps_what_is_written(o.what))
    for (auto& each : violations_of(written_down)) v.violations.push_back(std::move(each));
  return v;
}

int run(options const& o) {
  folder where(o.history);
  bool const terminal = ::isatty(STDERR_FILENO) == 1;
  int faults = 0;
  auto const v = torture(o, where.path(), [&](std::string const& what) {
    if (terminal) fmt::print(stderr, "\r\033[K{} faults: {}", ++faults, what);
  });
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!v.violations.empty()) where.keep();
  draw(where.path(), v, o.picture);
  auto const kept = !o.history.empty() || !v.violations.empty() ? where.path().string() : std::string();
  if (o.json)
    fmt::print("{}\n", as_json(o, v, kept).dump(2));
  else
    print(o, v, kept);
  return v.violations.empty() ? 0 : 1;
}

}  // namespace rowlock::torture

// Workers that add to counters under a lock, and a nemesis that stops them between read and write for longer
// than the lock lasts: what is lost with a plain lease, with a Redis lock, and with require().
// tools/demo-pause runs it on each database; see usage() for what it can be told.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "demo/nemesis.hpp"
#include "demo/redis.hpp"
#include "demo/timeline.hpp"
#include "demo/worker.hpp"

namespace rowlock::demo {

char const* to_string(mode m) noexcept {
  switch (m) {
    case mode::lease:
      return "lease";
    case mode::redis:
      return "redis";
    default:
      return "require";
  }
}

namespace {

constexpr auto usage_text =
    "usage: rowlock_demo_pause [OPTION...] URL\n"
    "  --seconds N     for all modes together (60)\n"
    "  --workers N     per counter (3)\n"
    "  --counters N    each with a lock of its own (4)\n"
    "  --ttl MS        how long a lock lasts that nobody renews (300)\n"
    "  --title TEXT    the database's name, for people\n"
    "  --no-redis      leave out the comparison with a Redis lock\n"
    "  --picture FILE  draw what happened around one pause (SVG)\n"
    "  --results FILE  add a line for each mode: MODE PAUSES ACKNOWLEDGED FOUND REFUSED IN-DOUBT\n"
    "Exit status: 0 if the plain lease (and Redis) lost updates and require() none.\n";

mode mode_from_string(std::string_view text) {
  for (auto const m : {mode::lease, mode::redis, mode::require})
    if (text == to_string(m)) return m;
  throw std::runtime_error("no such mode");
}

/// --worker NUMBER COUNTER MODE TTL REDIS-SOCKET URL: what the nemesis starts.
int be_worker(char** words) {
  work({.number = std::stoi(words[0]),
        .counter = std::stoi(words[1]),
        .how = mode_from_string(words[2]),
        .url = words[5],
        .redis_socket = words[4],
        .ttl = std::chrono::milliseconds(std::stol(words[3]))});
  return 0;
}

struct arguments {
  int seconds = 60;
  int workers = 3;
  int counters = 4;
  int ttl = 300;
  std::string title{};
  bool redis = true;
  std::string picture{};
  std::string results{};
  std::string url{};
};

std::optional<arguments> parse(std::vector<std::string> const& words) {
  arguments a;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const& word = words[i];
    bool const more = i + 1 < words.size();
    auto number = [&](int& to) {
      auto const& text = words[++i];
      auto const end = text.data() + text.size();
      return std::from_chars(text.data(), end, to).ptr == end && to > 0;
    };
    if (word == "--no-redis") {
      a.redis = false;
    } else if (!word.starts_with("--") && a.url.empty()) {
      a.url = word;
    } else if (!more) {
      return std::nullopt;
    } else if (word == "--seconds") {
      if (!number(a.seconds)) return std::nullopt;
    } else if (word == "--workers") {
      if (!number(a.workers) || a.workers < 2) return std::nullopt;
    } else if (word == "--counters") {
      if (!number(a.counters)) return std::nullopt;
    } else if (word == "--ttl") {
      if (!number(a.ttl) || a.ttl < 100) return std::nullopt;
    } else if (word == "--title") {
      a.title = words[++i];
    } else if (word == "--picture") {
      a.picture = words[++i];
    } else if (word == "--results") {
      a.results = words[++i];
    } else {
      return std::nullopt;
    }
  }
  if (a.url.empty()) return std::nullopt;
  return a;
}

struct line {
  char const* text;
  mode how;
  outcome what;
};

void print(line const& l) {
  fmt::print("  {:<34}{:>8}{:>14}{:>9}{:>7}{:>9}\n", l.text, l.what.pauses, l.what.acknowledged, l.what.found,
             l.what.lost(), l.how == mode::require ? std::to_string(l.what.refused) : "-");
  std::fflush(stdout);
}

int run(arguments const& a) {
  migrator{source_from_url(a.url)}.up();
  std::string const no_redis = a.redis ? redis_server::missing() : "left out";
  std::optional<redis_server> redis;
  if (no_redis.empty()) redis.emplace();

  std::vector<line> lines{{"(a) a lease, its loss not looked at", mode::lease, {}}};
  if (redis) lines.push_back({"(b) a Redis lock", mode::redis, {}});
  lines.push_back({"(c) the lease, and require()", mode::require, {}});
  phase_options o{.url = a.url,
                  .redis_socket = redis ? redis->socket() : "",
                  .workers = a.workers * a.counters,
                  .counters = a.counters,
                  .ttl = std::chrono::milliseconds(a.ttl)};

  fmt::print("{:<36}{:>8}{:>14}{:>9}{:>7}{:>9}\n", a.title, "pauses", "acknowledged", "found", "lost",
             "refused");
  std::fflush(stdout);
  bool good = true;
  for (auto& l : lines) {
    // What must not lose anything is tried for longest.
    auto const parts = static_cast<int>(lines.size()) + 1;
    o.duration = std::chrono::milliseconds(a.seconds * 1000 / parts * (l.how == mode::require ? 2 : 1));
    o.how = l.how;
    l.what = run_phase(o);
    print(l);
    if (l.how == mode::require) {
      // Of those in doubt each may have been counted.
      good = good && l.what.lost() <= 0 && -l.what.lost() <= l.what.in_doubt && l.what.acknowledged > 0 &&
             l.what.refused > 0;
    } else {
      good = good && l.what.lost() > 0;
    }
    if (!a.results.empty())
      std::ofstream(a.results, std::ios::app)
          << fmt::format("{} {} {} {} {} {}\n", to_string(l.how), l.what.pauses, l.what.acknowledged,
                         l.what.found, l.what.refused, l.what.in_doubt);
  }
  if (a.redis && !redis) fmt::print("  (b) a Redis lock: not tried, {}\n", no_redis);
  auto const& guarded = lines.back().what;
  fmt::print(
      "  (c): {} of the {} pauses fell between BEGIN and COMMIT, where a takeover waits from require() on\n",
      guarded.in_transaction, guarded.pauses);
  if (guarded.in_doubt > 0) fmt::print("  (c): {} commits in doubt\n", guarded.in_doubt);
  if (!a.picture.empty()) {
    std::ofstream file(a.picture);
    file << timeline(a.title, o, lines.front().what, guarded);
    if (!file.flush()) throw std::runtime_error("cannot write " + a.picture);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace rowlock::demo

int main(int argc, char** argv) try {
  using namespace rowlock::demo;
  if (argc == 8 && std::string_view(argv[1]) == "--worker") return be_worker(argv + 2);
  auto const arguments = parse({argv + 1, argv + argc});
  if (arguments) return run(*arguments);
  std::fputs(usage_text, stderr);
  return 64;
} catch (std::exception const& e) {
  fmt::print(stderr, "rowlock_demo_pause: {}\n", e.what());
  return 70;
}

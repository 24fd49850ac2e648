// Histories written by hand: each breaks one promise, or looks as if it did.
#include "checker.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <rowlock/types.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "history.hpp"
#include "ledger.hpp"
#include "picture.hpp"
#include "run.hpp"
#include "support/support.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

class history {
 public:
  history& add(double at, happening what, std::uint32_t process, std::string_view text = {}) {
    auto& r = records_.emplace_back();
    r.at = ns(at);
    r.what = what;
    r.process = process;
    r.turn = turn_[process];
    r.units = 1;
    r.set_text(text);
    return *this;
  }
  history& asks(double at, std::uint32_t process, std::int64_t units = 1) {
    ++turn_[process];
    add(at, happening::asks, process);
    records_.back().units = units;
    return *this;
  }
  history& got(double at, std::uint32_t process, double trusted_until, std::int64_t token,
               std::int64_t units = 1) {
    add(at, happening::got, process);
    auto& r = records_.back();
    r.trusted_until = ns(trusted_until);
    r.token = token;
    r.units = units;
    r.set_term(term(process));
    return *this;
  }
  history& trusts(double at, std::uint32_t process, double until) {
    add(at, happening::trusts, process);
    records_.back().turn = 0;
    records_.back().trusted_until = ns(until);
    records_.back().set_term(term(process));
    return *this;
  }
  history& gives_back(double at, std::uint32_t process, std::string_view result = "released") {
    return add(at, happening::gives_back, process).add(at + 0.001, happening::gave_back, process, result);
  }
  history& fault(double from, double to, std::uint32_t process, std::string_view what = "stop") {
    return add(from, happening::fault, process, what).add(to, happening::mended, process, what);
  }
  /// Whatever that process did concerns another lock.
  history& on_another(std::uint32_t process) {
    for (auto& r : records_)
      if (r.process == process) r.name = 1;
    return *this;
  }
  std::vector<record> records() const {
    auto all = records_;
    std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
    return all;
  }
  /// The rules that are broken, each once.
  std::vector<std::string> broken(promise const& p) const {
    std::vector<std::string> rules;
    for (auto const& v : check(records(), p).violations)
      if (rules.empty() || rules.back() != v.rule) rules.push_back(v.rule);
    return rules;
  }

 private:
  static std::int64_t ns(double s) { return static_cast<std::int64_t>(s * 1e9); }
  std::string term(std::uint32_t process) {
    return std::to_string(process) + "/" + std::to_string(turn_[process]);
  }

  std::vector<record> records_;
  std::map<std::uint32_t, std::uint32_t> turn_;
};

promise const usual{.limit = 1, .tokens_rise = true, .ttl = 2s, .longest_gap = 7s};
using broken = std::vector<std::string>;

}  // namespace

TEST_CASE("checker: one after the other breaks nothing") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.5, 1).asks(1.2, 2).got(1.6, 2, 3.6, 11).gives_back(2, 2);
  CHECK(h.broken(usual).empty());
}

TEST_CASE("checker: two who trust at a time are seen, whatever ended their trust later") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).asks(1.2, 2).got(1.4, 2, 3.4, 11).gives_back(1.5, 1).gives_back(2, 2);
  CHECK(h.broken(usual) == broken{"overlap"});
}

TEST_CASE(
    "checker: who has let go of it, was told of the loss, or is dead is no holder, and trust ends by "
    "itself") {
  auto const second = [](history& h) { h.asks(1.2, 2).got(3, 2, 5, 11).gives_back(4, 2); };
  SUBCASE("told") {
    history h;
    h.asks(1, 1).got(1.1, 1, 3.5, 10).fault(1.2, 2.8, 1).add(2.9, happening::lost, 1, "taken_over");
    second(h);
    CHECK(h.broken(usual).empty());
  }
  SUBCASE("dead") {
    history h;
    h.asks(1, 1).got(1.1, 1, 3.5, 10).add(2, happening::died, 1);
    second(h);
    CHECK(h.broken(usual).empty());
  }
  SUBCASE("stopped") {
    history h;
    h.asks(1, 1)
        .got(1.1, 1, 2.9, 10)
        .fault(1.2, 6, 1)
        .gives_back(6.5, 1, to_string(release_result::already_lost));
    second(h);
    CHECK(h.broken(usual).empty());
  }
  SUBCASE("stopped, but renewed before") {
    history h;
    h.asks(1, 1)
        .got(1.1, 1, 2.9, 10)
        .trusts(1.15, 1, 3.3)
        .fault(1.2, 6, 1)
        .gives_back(6.5, 1, to_string(release_result::already_lost));
    second(h);
    CHECK(h.broken(usual) == broken{"overlap"});
  }
}

TEST_CASE("checker: units are added up") {
  promise p = usual;
  p.limit = 3;
  p.tokens_rise = false;
  history h;
  h.asks(1, 1, 2).got(1.1, 1, 9, 1, 2).asks(1, 2).got(1.2, 2, 9, 2);
  SUBCASE("as many as there are") {}
  SUBCASE("one more") {
    h.asks(1.3, 3).got(1.4, 3, 9, 3).gives_back(1.5, 3);
    CHECK(h.gives_back(2, 1).gives_back(2, 2).broken(p) == broken{"overlap"});
    return;
  }
  CHECK(h.gives_back(2, 1).gives_back(2, 2).broken(p).empty());
}

TEST_CASE("checker: a token that is not above all before it is seen") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.5, 1).asks(1.05, 2);
  SUBCASE("as high") { h.got(1.6, 2, 3.6, 10); }
  SUBCASE("lower") { h.got(1.6, 2, 3.6, 9); }
  CHECK(h.gives_back(2, 2).broken(usual) == broken{"token"});
}

TEST_CASE("checker: where several hold it, who asks when another has it gets a higher token") {
  promise p = usual;
  p.limit = 5;
  p.tokens_rise = false;
  history h;
  h.asks(1, 1).got(1.1, 1, 9, 10);
  SUBCASE("later, and higher") { h.asks(1.2, 2).got(1.3, 2, 9, 11); }
  SUBCASE("at the same time, and lower: it was granted first, and told last") {
    h.asks(1.05, 2).got(1.3, 2, 9, 9);
  }
  SUBCASE("later, and lower") {
    h.asks(1.2, 2).got(1.3, 2, 9, 9);
    CHECK(h.gives_back(2, 1).gives_back(2, 2).broken(p) == broken{"token"});
    return;
  }
  CHECK(h.gives_back(2, 1).gives_back(2, 2).broken(p).empty());
}

TEST_CASE("checker: a grant that was over before its process, which was stopped, could tell has any token") {
  history h;
  h.asks(1, 1).fault(1.05, 4, 1).asks(1.2, 2).got(3.1, 2, 5, 11).gives_back(3.5, 2);
  h.got(4.001, 1, 3, 10).add(4.002, happening::lost, 1);
  CHECK(h.gives_back(4.1, 1, to_string(release_result::already_lost)).broken(usual).empty());
}

TEST_CASE("checker: by force two have it at a time: that is counted, and tokens still rise") {
  promise p = usual;
  p.overlaps_happen = true;
  p.tokens_rise = false;
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).asks(1.2, 2);
  SUBCASE("and they do") { CHECK(h.got(1.3, 2, 3, 11).gives_back(2, 1).gives_back(2, 2).broken(p).empty()); }
  SUBCASE("and they do not") {
    CHECK(h.got(1.3, 2, 3, 10).gives_back(2, 1).gives_back(2, 2).broken(p) == broken{"token"});
  }
}

TEST_CASE("checker: what an operator does excuses nothing") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).add(1.5, happening::deed, everybody, "reapers");
  CHECK(h.add(2, happening::lost, 1, "row_gone").broken(usual) == broken{"loss"});
}

TEST_CASE("checker: who asks for several at once waits for the others, too") {
  promise p = usual;
  p.together = true;
  history h;
  // Number 2 wants the name of number 1, which is free, and another one, which is not.
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.5, 1).asks(1.2, 2);
  SUBCASE("which somebody has") {
    CHECK(h.broken(p) == broken{"waits"});
    h.asks(1.3, 3).got(1.4, 3, 20, 11).gives_back(11, 3);
    h.on_another(3);
    CHECK(h.got(11.1, 2, 13, 12).gives_back(11.5, 2).broken(p).empty());
  }
  SUBCASE("which nobody has") {
    CHECK(h.got(11.1, 2, 13, 12).gives_back(11.5, 2).broken(p) == broken{"progress"});
  }
}

TEST_CASE("picture: who held the lock when, as an SVG, with faults and what breaks the promise") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).asks(1.2, 2).fault(1.3, 1.35, 2).got(1.4, 2, 3.4, 11);
  h.gives_back(1.5, 1).gives_back(2, 2);
  auto const all = h.records();
  auto const v = check(all, usual).violations;
  REQUIRE(v.size() == 1);
  auto const svg = picture(all, v[0]);
  auto const count = [&](std::string_view what) {
    int n = 0;
    for (auto at = svg.find(what); at != svg.npos; at = svg.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count("#c0392b") == 2);
  CHECK(count(">process ") == 2);
  CHECK(count("<title>stop</title>") == 1);
  // One that has no records, as where nobody gets a lock, can't be drawn.
  CHECK(picture(all, {"progress", "none", {}}).empty());
}

TEST_CASE("picture: what a server has said does no harm where it is shown") {
  history h;
  h.fault(0.5, 0.6, everybody, "\x1b[2J<&\xff");
  h.asks(1, 1).got(1.1, 1, 3, 10).asks(1.2, 2).got(1.4, 2, 3.4, 11).gives_back(1.5, 1).gives_back(2, 2);
  auto const all = check(h.records(), usual).violations;
  REQUIRE(all.size() == 1);
  auto const svg = picture(h.records(), all.front());
  CHECK(std::all_of(svg.begin(), svg.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST_CASE("checker: how often a lock went from one thread to another is counted") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.2, 1).asks(1.3, 1).got(1.4, 1, 3, 11).gives_back(1.5, 1);
  CHECK(check(h.records(), usual).hand_overs == 0);
  h.asks(1.6, 2).got(1.7, 2, 3, 12).gives_back(1.8, 2);
  CHECK(check(h.records(), usual).hand_overs == 1);
}

TEST_CASE("checker: what is lost or not got while the database is away by itself is no proof") {
  auto const in_outage = [](history const& h, std::string const& rule) {
    for (auto const& v : check(h.records(), usual).violations)
      if (v.rule == rule) return v.in_outage ? "in an outage" : "broken";
    return "kept";
  };
  auto const loses = [](history& h) {
    h.asks(1, 1).got(1.1, 1, 3, 10).add(2, happening::lost, 1, "trust ended");
  };
  auto const gets_none = [](history& h) {
    h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.2, 1).asks(1.3, 2).asks(11, 1).got(11.1, 1, 13, 11);
    h.gives_back(11.2, 1).add(11.3, happening::got_none, 2);
  };
  history lost, stuck;
  loses(lost);
  gets_none(stuck);
  CHECK(in_outage(lost, "loss") == std::string("broken"));
  CHECK(in_outage(stuck, "progress") == std::string("broken"));
  for (auto* h : {&lost, &stuck}) h->asks(1.5, 3).add(1.9, happening::away, 3, "database unreachable");
  CHECK(in_outage(lost, "loss") == std::string("in an outage"));
  CHECK(in_outage(stuck, "progress") == std::string("in an outage"));
  CHECK(check(lost.records(), usual).outages == 1);
  CHECK(check(lost.records(), usual).unexplained == 0);
  // That two have it is a proof at any time.
  lost.asks(1.2, 2).got(1.3, 2, 3.3, 11).gives_back(2.5, 2);
  CHECK(in_outage(lost, "overlap") == std::string("broken"));
}

TEST_CASE("checker: where calls mostly found no database, nothing is said to be kept") {
  verdict v;
  v.hand_overs = 1000;
  v.acquisitions = 1000;
  v.refused = 500;
  v.outages = 1500;
  CHECK(status_of(v) == outcome::kept);
  v.outages = 1501;
  CHECK(status_of(v) == outcome::unknown);
}

TEST_CASE("checker: calls that fail without a fault, though the database is there, are counted") {
  history h;
  h.asks(1, 1).add(1.1, happening::failed, 1, "the database refused a statement");
  h.fault(20, 21, 1).asks(20.5, 1).add(20.6, happening::failed, 1, "another");
  auto const v = check(h.records(), usual);
  CHECK(v.errors == 2);
  CHECK(v.unexplained == 1);
  CHECK(v.first_unexplained == "the database refused a statemen");  // as much as there is room for
}

TEST_CASE("checker: a term that two have is seen") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.5, 1);
  h.asks(1.6, 1).got(1.7, 1, 4, 11).gives_back(1.8, 1);
  CHECK(h.broken(usual).empty());
  // Another process has the first one's term.
  auto const all = [] {
    record a, b;
    a.at = 1'000'000'000;
    a.what = happening::got;
    a.turn = 1;
    a.token = 1;
    a.units = 1;
    a.trusted_until = 1'500'000'000;
    a.set_term("same");
    b = a;
    b.at = 2'000'000'000;
    b.trusted_until = 2'500'000'000;
    b.token = 2;
    b.process = 1;
    return std::vector{a, b};
  }();
  auto const v = check(all, usual).violations;
  REQUIRE(v.size() == 1);
  CHECK(v[0].rule == "term");
}

TEST_CASE("checker: a loss needs a fault that hits its process, and is told in time") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10);
  SUBCASE("without a fault") {
    CHECK(h.add(2, happening::lost, 1, "taken_over").broken(usual) == broken{"loss"});
  }
  SUBCASE("with another one's") {
    CHECK(h.fault(1.2, 1.9, 2).add(2, happening::lost, 1).broken(usual) == broken{"loss"});
  }
  SUBCASE("with its own") { CHECK(h.fault(1.2, 1.9, 1).add(2, happening::lost, 1).broken(usual).empty()); }
  SUBCASE("with the server's") {
    CHECK(h.fault(1.2, 1.9, everybody, "server").add(2, happening::lost, 1).broken(usual).empty());
  }
  SUBCASE("late, as it was stopped") {
    CHECK(h.fault(1.2, 5, 1).add(5.1, happening::lost, 1).broken(usual).empty());
  }
  SUBCASE("late, though it was not stopped") {
    CHECK(h.fault(1.2, 4, everybody, "server").add(3.6, happening::lost, 1).broken(usual) ==
          broken{"late loss"});
  }
  SUBCASE("by no more than a busy machine is") {
    CHECK(h.fault(1.2, 4, everybody, "server").add(3.4, happening::lost, 1).broken(usual).empty());
  }
}

TEST_CASE("checker: a process that is stopped while it asks may hear late that it lost what it was given") {
  history h;
  h.asks(1, 1).fault(1.05, 4, 1).got(4.001, 1, 3, 10).add(4.002, happening::lost, 1);
  CHECK(h.gives_back(4.1, 1, to_string(release_result::already_lost)).broken(usual).empty());
}

TEST_CASE("checker: what was lost before its caller has it is not given to it") {
  history h;
  h.asks(1, 1);
  SUBCASE("by a server that was slow") {
    h.fault(1.05, 4, everybody, "server").got(4.001, 1, 3, 10);
    CHECK(h.gives_back(4.002, 1, to_string(release_result::already_lost)).broken(usual) ==
          broken{"late loss"});
  }
  SUBCASE("by no more than a busy machine is") {
    h.fault(1.05, 3.4, everybody, "server").got(3.4, 1, 3, 10);
    CHECK(h.gives_back(3.41, 1, to_string(release_result::already_lost)).broken(usual).empty());
  }
  SUBCASE("unless its process was stopped: that may have been afterwards") {
    h.fault(1.05, 4, 1).got(4.001, 1, 3, 10);
    CHECK(h.gives_back(4.002, 1, to_string(release_result::already_lost)).broken(usual).empty());
  }
}

TEST_CASE("checker: what nothing has disturbed is given back") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.5, 1, to_string(release_result::already_lost));
  SUBCASE("nothing") { CHECK(h.broken(usual) == broken{"release"}); }
  SUBCASE("a fault") { CHECK(h.fault(1.2, 1.3, 1).broken(usual).empty()); }
}

TEST_CASE("checker: a lock that is free, wanted, and not taken for too long is seen") {
  history h;
  h.asks(1, 1).got(1.1, 1, 3, 10).gives_back(1.5, 1).asks(1.2, 2);
  SUBCASE("free") { CHECK(h.got(9, 2, 11, 11).gives_back(9.5, 2).broken(usual) == broken{"progress"}); }
  SUBCASE("by one who is refused again and again") {
    h.add(4, happening::got_none, 2, "timed_out").asks(4.1, 2).add(8, happening::got_none, 2).asks(8.1, 2);
    CHECK(h.got(9, 2, 11, 11).gives_back(9.5, 2).broken(usual) == broken{"progress"});
  }
  SUBCASE("by one who gives up") {
    CHECK(h.add(9, happening::got_none, 2, "cancelled").broken(usual) == broken{"progress"});
  }
  SUBCASE("by one who gives up, and others later") {
    h.add(9, happening::got_none, 2, "timed out").asks(20, 2);
    CHECK(h.got(20.1, 2, 22, 11).gives_back(21, 2).broken(usual) == broken{"progress"});
  }
  SUBCASE("by one who gives up soon") {
    CHECK(h.add(4, happening::got_none, 2).add(20, happening::died, 3).broken(usual).empty());
  }
  SUBCASE("by nobody for a while") {
    h.add(4, happening::got_none, 2, "timed_out").asks(5, 2);
    CHECK(h.got(9, 2, 11, 11).gives_back(9.5, 2).broken(usual).empty());
  }
  SUBCASE("while the server was away") {
    CHECK(h.fault(2, 8, everybody, "server").got(9, 2, 11, 11).gives_back(9.5, 2).broken(usual).empty());
  }
}

TEST_CASE("checker: who still waits at the end is seen, unless it is dead") {
  history h;
  h.asks(1, 1);
  SUBCASE("living") { CHECK(h.add(2, happening::fault, everybody).broken(usual) == broken{"waits"}); }
  SUBCASE("dead") { CHECK(h.add(2, happening::died, 1).broken(usual).empty()); }
}

TEST_CASE(
    "checker: a history that is cut short, or has something else in it, is refused, and an empty one shows "
    "nothing") {
  test::scratch_folder const folder;
  std::string const file = folder.file("0.0.history");
  auto const with = [&](std::size_t length, char last) {
    record r;
    r.what = happening::got;
    std::string bytes(reinterpret_cast<char const*>(&r), sizeof r);
    bytes += bytes;
    bytes.back() = last;
    std::ofstream(file, std::ios::binary) << bytes.substr(0, length);
    return read_history(folder.path()).size();
  };
  CHECK(with(2 * sizeof(record), 0) == 2);
  CHECK_THROWS_WITH_AS(with(200, 0), doctest::Contains("a record is cut in two"), std::runtime_error);
  CHECK_THROWS_WITH_AS(with(2 * sizeof(record), 'x'), doctest::Contains("no record"), std::runtime_error);
  CHECK(with(0, 0) == 0);
  CHECK(check({}, usual).hand_overs == 0);
}

TEST_CASE("checker: what was said to be committed and is not there is seen, as what was written over is") {
  CHECK(violations_of({.added = 10, .lost = 0, .committed = 10}).empty());
  CHECK(violations_of({.added = 10, .lost = 0, .committed = 9}).empty());  // or whoever did it has not heard
  auto const gone = violations_of({.added = 10, .lost = 0, .committed = 11});
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].rule == "guard");
  auto const both = violations_of({.added = 10, .lost = 1, .committed = 11});
  CHECK(both.size() == 2);
}

TEST_CASE("checker: a fault counts as one in flight if it hits somebody who asks or gives back") {
  std::vector<record> all(2);
  all[0].at = 1;
  all[0].what = happening::asks;
  all[1].at = 2;
  all[1].what = happening::died;
  CHECK(check(all, usual).faults == 1);
  CHECK(check(all, usual).faults_in_flight == 1);
  all[0].process = 3;
  CHECK(check(all, usual).faults_in_flight == 0);
}

}  // namespace rowlock::torture

#include "checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <rowlock/types.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace rowlock::torture {
namespace {

constexpr auto never = std::numeric_limits<std::int64_t>::max();
/// On a busy machine a callback may be late, and so may what it writes down: of some dozens of threads that
/// all lose their locks with one fault each waits for the others.
constexpr std::int64_t late = 500'000'000;
/// Between two asks of one who waits again and again.
constexpr std::int64_t breath = 200'000'000;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

/// One ask and what came of it.
struct turn {
  std::optional<record> asks, got, no, lost, gives_back, gave_back;
  std::int64_t trusted_until = 0;
  std::int64_t died = never;

  /// When the caller ceased to be the holder, at the latest.
  std::int64_t end() const {
    auto e = std::min(trusted_until == 0 ? never : trusted_until, died);
    if (lost) e = std::min(e, lost->at);
    if (gives_back) e = std::min(e, gives_back->at);
    return e;
  }
  bool waits_at(std::int64_t t) const {
    auto const answered = got ? got->at : no ? no->at : died;
    return asks && asks->at <= t && t < answered;
  }
  bool gives_back_at(std::int64_t t) const {
    return gives_back && gives_back->at <= t && t < (gave_back ? gave_back->at : died);
  }
};

struct fault {
  record begins;
  std::int64_t ends = never;
  bool hits(std::uint32_t process) const { return begins.process == everybody || begins.process == process; }
};

using key =
    std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // process, life, thread, turn
using one_life = std::pair<std::uint32_t, std::uint32_t>;

class inquiry {
 public:
  inquiry(std::vector<record> const& history, promise const& p) : promise_(p) {
    for (auto const& r : history) sort_in(r);
    end_ = history.empty() ? 0 : history.back().at;
    sort_in_trust(history);
    for (auto& [k, t] : turns_) {
      auto const dead = died_.find({std::get<0>(k), std::get<1>(k)});
      if (dead != died_.end()) t.died = dead->second;
    }
    for (auto const& [k, t] : turns_) {
      if (!t.asks || !t.no || disturbed(t.no->process, t.asks->at, t.no->at)) continue;
      if (t.no->what == happening::away) outages_.emplace_back(t.asks->at, t.no->at);
      if (t.no->what == happening::failed && verdict_.unexplained++ == 0)
        verdict_.first_unexplained = t.no->text;
    }
    verdict_.outages = static_cast<std::int64_t>(outages_.size());
  }

  std::vector<interval> held() const {
    std::vector<interval> all;
    for (auto const& [k, t] : turns_)
      if (t.got) all.push_back({*t.got, std::clamp(t.end(), t.got->at, std::max(t.got->at, end_))});
    return all;
  }

  verdict result() {
    for (auto const& [k, t] : turns_) {
      count(t);
      if (t.got) look_at_end(t);
      if (t.asks && !t.got && !t.no && t.died == never)
        complain("waits", fmt::format("{} still waits at the end", who(*t.asks)), {*t.asks});
    }
    look_at_terms();
    for (auto& [name, held] : by_name()) {
      look_for_overlaps(name, held);
      look_at_tokens(held);
      if (!promise_.together) look_at_progress([name = name](record const& r) { return r.name == name; });
    }
    if (promise_.together) look_at_progress([](record const&) { return true; });
    look_at_faults();
    return std::move(verdict_);
  }

 private:
  void sort_in(record const& r) {
    switch (r.what) {
      case happening::fault:
        faults_.push_back({r});
        return;
      case happening::mended:
        for (auto f = faults_.rbegin(); f != faults_.rend(); ++f)
          if (f->ends == never && f->begins.process == r.process &&
              std::string_view(f->begins.text) == r.text) {
            f->ends = r.at;
            break;
          }
        return;
      case happening::died:
        died_[{r.process, r.life}] = r.at;
        return;
      case happening::trusts:
        return;
      case happening::deed:
        ++verdict_.deeds;
        return;
      default:
        break;
    }
    auto& t = turns_[{r.process, r.life, r.thread, r.turn}];
    t.trusted_until = std::max(t.trusted_until, r.trusted_until);
    switch (r.what) {
      case happening::asks:
        t.asks = r;
        break;
      case happening::got:
        t.got = r;
        break;
      case happening::got_none:
      case happening::failed:
      case happening::away:
        t.no = r;
        break;
      case happening::lost:
        if (!t.lost) t.lost = r;
        break;
      case happening::gives_back:
        t.gives_back = r;
        break;
      case happening::gave_back:
        t.gave_back = r;
        break;
      default:
        break;
    }
  }

  /// A renewal may be told before its thread has written down that it has the lock.
  void sort_in_trust(std::vector<record> const& history) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::string_view>, turn*> by_term;
    for (auto& [k, t] : turns_)
      if (t.got) by_term[{t.got->process, t.got->life, t.got->term}] = &t;
    for (auto const& r : history) {
      if (r.what != happening::trusts) continue;
      auto const at = by_term.find({r.process, r.life, r.term});
      if (at != by_term.end())
        at->second->trusted_until = std::max(at->second->trusted_until, r.trusted_until);
    }
  }

  static bool is_same_thread(record const& a, record const& b) {
    return a.process == b.process && a.life == b.life && a.thread == b.thread;
  }
  static std::string who(record const& r) {
    return fmt::format("process {}.{} thread {} turn {} on lock {}", r.process, r.life, r.thread, r.turn,
                       r.name);
  }
  static std::string told(turn const& t) {
    return fmt::format("{} held it from {:.6f} s to {:.6f} s with token {}", who(*t.got), seconds(t.got->at),
                       seconds(t.end()), t.got->token);
  }

  void complain(std::string rule, std::string text, std::vector<record> records) {
    verdict_.violations.push_back({std::move(rule), std::move(text), std::move(records)});
  }

  /// Where the database was away by itself then, or shortly before, that is why.
  void complain(std::string rule, std::string text, std::vector<record> records, std::int64_t from,
                std::int64_t to) {
    complain(std::move(rule), std::move(text), std::move(records));
    verdict_.violations.back().in_outage = std::any_of(outages_.begin(), outages_.end(), [&](auto const& o) {
      return o.first <= to && o.second + promise_.ttl.count() >= from;
    });
  }

  void count(turn const& t) {
    verdict_.acquisitions += t.got.has_value();
    verdict_.losses += t.lost.has_value();
    if (t.no) (t.no->what == happening::got_none ? verdict_.refused : verdict_.errors) += 1;
  }

  /// Whether a fault that hits this process was there between the times, or shortly before.
  bool disturbed(std::uint32_t process, std::int64_t from, std::int64_t to) const {
    return std::any_of(faults_.begin(), faults_.end(), [&](fault const& f) {
      bool const hits =
          f.hits(process) || (promise_.stops_hit_everybody && std::string_view(f.begins.text) == "stop");
      return hits && f.begins.at <= to && (f.ends == never || f.ends + promise_.ttl.count() >= from);
    });
  }

  void look_at_end(turn const& t) {
    auto const process = t.got->process;
    auto const trusted = t.got->trusted_until;
    if (trusted != 0 && t.got->at > trusted + late && !stopped(process, t, t.got->at))
      return complain("late loss",
                      fmt::format("{} was given it {:.3f} s after trust had ended", who(*t.got),
                                  seconds(t.got->at - trusted)),
                      {*t.got});
    if (t.lost) {
      if (!disturbed(process, t.got->at, t.lost->at)) {
        complain("loss", fmt::format("{} lost it without a fault: {}", who(*t.lost), t.lost->text),
                 {*t.got, *t.lost}, t.got->at, t.lost->at);
      } else if (t.trusted_until != 0 && t.lost->at > t.trusted_until + late &&
                 !stopped(process, t, t.lost->at)) {
        complain("late loss",
                 fmt::format("{} was told {:.3f} s after trust had ended", who(*t.lost),
                             seconds(t.lost->at - t.trusted_until)),
                 {*t.got, *t.lost});
      }
    } else if (t.gave_back &&
               t.gave_back->text == std::string_view(to_string(release_result::already_lost)) &&
               !disturbed(process, t.got->at, t.gave_back->at)) {
      complain("release", fmt::format("{} had lost it without a fault", who(*t.gave_back)),
               {*t.got, *t.gave_back}, t.got->at, t.gave_back->at);
    }
  }

  /// Also while it asked: what it was given then may be over when it wakes, and be told as lost at once.
  bool stopped(std::uint32_t process, turn const& t, std::int64_t until) const {
    auto const from = t.asks ? t.asks->at : t.got->at;
    return std::any_of(faults_.begin(), faults_.end(), [&](fault const& f) {
      return f.begins.process == process && f.begins.at <= until && f.ends >= from;
    });
  }

  void look_at_terms() {
    std::map<std::string_view, record const*> seen;
    for (auto const& [k, t] : turns_) {
      if (!t.got || t.got->term[0] == 0) continue;
      auto const [at, fresh] = seen.emplace(t.got->term, &*t.got);
      if (!fresh)
        complain("term", fmt::format("{} and {} have one term", who(*at->second), who(*t.got)),
                 {*at->second, *t.got});
    }
  }

  std::map<std::uint32_t, std::vector<turn const*>> by_name() const {
    std::map<std::uint32_t, std::vector<turn const*>> all;
    for (auto const& [k, t] : turns_)
      if (t.got) all[t.got->name].push_back(&t);
    for (auto& [name, held] : all)
      std::sort(held.begin(), held.end(), [](auto a, auto b) { return a->got->at < b->got->at; });
    return all;
  }

  void look_for_overlaps(std::uint32_t name, std::vector<turn const*> const& held) {
    std::vector<turn const*> inside;
    record const* before = nullptr;
    for (auto const* t : held) {
      verdict_.hand_overs += before != nullptr && !is_same_thread(*before, *t->got);
      before = &*t->got;
      auto const begins = t->got->at;
      if (t->end() <= begins) continue;
      std::erase_if(inside, [&](auto const* other) { return other->end() <= begins; });
      auto units = t->got->units;
      for (auto const* other : inside) units += other->got->units;
      if (units > promise_.limit && promise_.overlaps_happen) {
        ++verdict_.overlaps;
      } else if (units > promise_.limit) {
        auto text = fmt::format("lock {}: {} of {} units are held at {:.6f} s: {}", name, units,
                                promise_.limit, seconds(begins), told(*t));
        std::vector<record> records{*t->got};
        for (auto const* other : inside) {
          text += "; " + told(*other);
          records.push_back(*other->got);
        }
        complain("overlap", text, records);
      }
      inside.push_back(t);
    }
  }

  void look_at_tokens(std::vector<turn const*> const& held) {
    // Who had the name when another one asked, by the time of that.
    auto asked = held;
    std::sort(asked.begin(), asked.end(), [](auto a, auto b) { return a->asks->at < b->asks->at; });
    turn const* before = nullptr;
    auto next = held.begin();
    for (auto const* t : asked) {
      for (; next != held.end() && (*next)->got->at < t->asks->at; ++next)
        if (before == nullptr || (*next)->got->token > before->got->token) before = *next;
      if (before != nullptr && t->got->token != 0 && t->got->token <= before->got->token)
        complain_of_tokens(*before, *t);
    }
    turn const* highest = nullptr;
    for (auto const* t : held) {
      // One that was over when it was told (its process was stopped meanwhile) has no place in the order.
      if (!promise_.tokens_rise || t->got->token == 0 || t->end() <= t->got->at) continue;
      // Those who asked later were looked at above.
      if (highest != nullptr && t->got->token <= highest->got->token && t->asks->at <= highest->got->at)
        complain_of_tokens(*highest, *t);
      if (highest == nullptr || t->got->token > highest->got->token) highest = t;
    }
  }

  void complain_of_tokens(turn const& earlier, turn const& later) {
    complain("token", fmt::format("{}; before that, {}", told(later), told(earlier)),
             {*earlier.got, *later.got});
  }

  /// How long it was possible to take a lock, wanted, and not done.
  template <class IsMeant>
  void look_at_progress(IsMeant const& is_meant) {
    struct change {
      std::int64_t at;
      int waits, holds, faults;
      bool grant;
    };
    std::vector<change> all;
    std::string waited_for = "any lock";
    for (auto const& [k, t] : turns_) {
      if (t.asks && is_meant(*t.asks)) {
        if (!promise_.together) waited_for = fmt::format("lock {}", t.asks->name);
        auto const answered = t.got ? t.got->at : t.no ? t.no->at : std::min(t.died, end_);
        all.push_back({t.asks->at, 1, 0, 0, false});
        all.push_back({answered, -1, 0, 0, t.got.has_value()});
      }
      if (t.got && is_meant(*t.got)) {
        all.push_back({t.got->at, 0, 1, 0, false});
        // What a dead owner leaves is bounded by the ttl, which the bound has in it.
        auto const given = t.gave_back ? t.gave_back->at : t.end();
        all.push_back({std::min(std::max(given, t.got->at), end_), 0, -1, 0, false});
      }
    }
    for (auto const& f : faults_) {
      all.push_back({f.begins.at, 0, 0, 1, false});
      all.push_back({std::min(f.ends, end_), 0, 0, -1, false});
    }
    std::stable_sort(all.begin(), all.end(), [](change const& a, change const& b) { return a.at < b.at; });
    int waits = 0;
    int holds = 0;
    int faults = 0;
    std::int64_t since = never;       // it is possible and wanted
    std::int64_t none_waits = never;  // since when
    auto const close = [&](std::int64_t at) {
      if (since == never) return;
      auto const from = std::exchange(since, never);
      auto const gap = at - from;
      verdict_.longest_gap = std::max(verdict_.longest_gap, std::chrono::nanoseconds(gap));
      if (gap > promise_.longest_gap.count())
        complain("progress",
                 fmt::format("{}: nobody got it for {:.3f} s up to {:.6f} s, though it was waited for",
                             waited_for, seconds(gap), seconds(at)),
                 {}, from, at);
    };
    for (auto const& c : all) {
      // Those who gave up have waited as well.
      if (waits == 0 && c.waits > 0 && c.at - none_waits > breath) close(none_waits);
      waits += c.waits;
      holds += c.holds;
      faults += c.faults;
      if (waits == 0 && c.waits < 0) none_waits = c.at;
      if (c.grant || holds > 0 || faults > 0) close(c.at);
      if (since == never && waits > 0 && holds == 0 && faults == 0) since = c.at;
    }
    close(waits > 0 ? end_ : none_waits);
  }

  void look_at_faults() {
    for (auto const& f : faults_) {
      ++verdict_.faults;
      verdict_.faults_in_flight += std::any_of(turns_.begin(), turns_.end(), [&](auto const& each) {
        auto const& t = each.second;
        return f.hits(std::get<0>(each.first)) && (t.waits_at(f.begins.at) || t.gives_back_at(f.begins.at));
      });
    }
    for (auto const& [l, at] : died_) {
      ++verdict_.faults;
      verdict_.faults_in_flight += std::any_of(turns_.begin(), turns_.end(), [&, l = l](auto const& each) {
        auto const& [process, of_life, thread, number] = each.first;
        auto const& t = each.second;
        return one_life(process, of_life) == l && t.died != never &&
               ((t.asks && !t.got && !t.no) || (t.gives_back && !t.gave_back));
      });
    }
  }

  promise promise_;
  std::map<key, turn> turns_;
  std::vector<fault> faults_;
  std::map<one_life, std::int64_t> died_;
  std::vector<std::pair<std::int64_t, std::int64_t>> outages_;
  std::int64_t end_ = 0;
  verdict verdict_;
};

}  // namespace

std::vector<interval> intervals(std::vector<record> const& history) { return inquiry(history, {}).held(); }

verdict check(std::vector<record> const& history, promise const& p) { return inquiry(history, p).result(); }

}  // namespace rowlock::torture

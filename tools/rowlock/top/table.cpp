#include "top/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "duration.hpp"
#include "holder.hpp"
#include "text.hpp"
#include "top/cells.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using look = screen_line::look;

constexpr std::array<std::pair<sort_column, std::string_view>, 5> orders{{{sort_column::name, "name"},
                                                                          {sort_column::since, "since"},
                                                                          {sort_column::left, "left"},
                                                                          {sort_column::waiting, "waiting"},
                                                                          {sort_column::owner, "owner"}}};
constexpr std::string_view help_text = R"(
Keys
  Up, Down, PgUp, PgDn, Home, End; k, j, g, G    choose a lock
  Enter     all that is known of it
  /         show only what has a text in its name, owner, state or note; Esc: all again
  s, S      sort by the next column, the one before
  r         the other way round
  x         revoke the lock: asks first. Its holder gives it back at its next renewal
  h, ?      this help
  q         quit; Ctrl-C, too

Columns
  STATE     held, reads or writes; expired: not taken yet; revoked: to be given back;
            unknown: this version can't read the row
  USED      units of all holders, and the limit
  SINCE     by the database's clock, UTC
  LEFT      until it is free unless it is renewed; session: until that ends
  WAIT      processes in the server's wait queue; - where the database does not tell
  BLOCKER   the database session whose open transaction has the row locked
Hand-overs are changes of holder between two readings. Shorter ones are not seen.)";

std::string place_of(lock_info const& lock) { return lock.name + '\0' + lock.term.value; }

std::string term_of(lock_info const& lock) {
  auto const& h = lock.holder;
  return fmt::format("{}/{}/{}/{}/{}", lock.term.value, h.token.value,
                     h.acquired_at.time_since_epoch().count(), h.owner.process, h.owner.thread);
}

bool owns_session(lock_info const& lock) { return traits(lock.holder.strategy).owns_session; }

/// By row_lock the holder itself has it locked.
bool blocked(lock_info const& lock) { return !lock.row_locked_by.empty() && !owns_session(lock); }

std::string state_in_column(lock_info const& lock) {
  std::string state = state_of(lock);
  if (state != "held" || lock.holder.strategy != strategy::shared) return state;
  return lock.holder.units == 1 ? "reads" : "writes";
}

std::string owner_in_column(lock_info const& lock) {
  if (!lock.unknown.empty()) return {};
  if (auto const& o = lock.holder.owner; owns_session(lock) && o.pid != 0)
    return fmt::format("session {}{}", o.pid, o.host.empty() ? "" : " " + o.host);
  return owner_of(lock.holder);
}

/// The time of a day near the reading, else the day.
std::string since_in_column(lock_info const& lock, std::chrono::system_clock::time_point now) {
  auto const text = since(lock.holder);  // 2026-11-20 10:00:00Z
  if (text.empty() || !lock.unknown.empty()) return {};
  auto const age = std::chrono::abs(now - lock.holder.acquired_at);
  return age < 20h ? text.substr(11, 8) : age < 24h * 300 ? text.substr(5, 11) : text.substr(0, 10);
}

std::string left_in_column(lock_info const& lock) {
  if (!lock.unknown.empty()) return {};
  return traits(lock.holder.strategy).has_expiry ? format_duration(lock.holder.expires_in) : "session";
}

std::string session_in_words(waiter_info const& s) {
  std::string more = s.host.empty() ? "" : " from " + s.host;
  if (!s.user.empty()) more += " as " + s.user;
  if (!s.application.empty()) more += " (" + s.application + ")";
  return fmt::format("session {}{}", s.session, more);
}

bool contains(std::string_view text, std::string_view part) {
  auto const lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [&](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

/// Terms that ended while others of their name began.
int changes(std::vector<lock_info> const& before, std::vector<lock_info> const& after) {
  auto const terms_of = [](std::vector<lock_info> const& locks) {
    std::map<std::string_view, std::set<std::string>> terms;
    for (auto const& lock : locks)
      if (lock.held) terms[lock.name].insert(term_of(lock));
    return terms;
  };
  auto const old = terms_of(before);
  int count = 0;
  for (auto const& [name, terms] : terms_of(after)) {
    auto const known = old.find(name);
    if (known == old.end()) continue;
    auto const missing = [](auto const& from, auto const& in) {
      return std::count_if(from.begin(), from.end(), [&](auto const& term) { return !in.contains(term); });
    };
    count += static_cast<int>(std::min(missing(terms, known->second), missing(known->second, terms)));
  }
  return count;
}

screen_line line(std::string_view text, std::size_t width, look how = look::plain) {
  return {how, trimmed(fitted(text, width)), false};
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace

std::optional<sort_column> order_of(std::string_view word) {
  for (auto const& [which, name] : orders)
    if (name == word) return which;
  return std::nullopt;
}

struct top_table::column {
  char const* heading;
  int rank;           ///< those of a low rank stay where the screen is narrow
  std::size_t least;  ///< columns
  std::string (*text)(top_table const&, lock_info const&);
};

std::vector<top_table::column> const& top_table::all_columns() {
  using t = top_table;
  using l = lock_info;
  static std::vector<column> const all{
      {"NAME", 1, 16, [](t const&, l const& lock) { return lock.name; }},
      {"STATE", 2, 7, [](t const&, l const& lock) { return state_in_column(lock); }},
      {"USED", 8, 5,
       [](t const& table, l const& lock) {
         auto const found = table.used_.find(lock.name);
         return found == table.used_.end() ? std::string()
                                           : fmt::format("{}/{}", found->second.used, found->second.limit);
       }},
      {"OWNER", 4, 13, [](t const&, l const& lock) { return owner_in_column(lock); }},
      {"SINCE", 6, 11, [](t const& table, l const& lock) { return since_in_column(lock, table.now_.at); }},
      {"LEFT", 3, 8, [](t const&, l const& lock) { return left_in_column(lock); }},
      {"WAIT", 5, 4,
       [](t const&, l const& lock) {
         return lock.waiting ? std::to_string(*lock.waiting) : lock.held ? "-" : "";
       }},
      {"BLOCKER", 7, 7,
       [](t const&, l const& lock) {
         return blocked(lock) ? std::to_string(lock.row_locked_by.front().session) : std::string();
       }},
      {"TOKEN", 10, 16,
       [](t const&, l const& lock) {
         return lock.holder.token ? std::to_string(lock.holder.token.value) : std::string();
       }},
      {"NOTE", 9, 12,
       [](t const&, l const& lock) { return lock.unknown.empty() ? lock.holder.note : lock.unknown; }}};
  return all;
}

top_table::top_table(std::string title, milliseconds every, sort_column by)
    : title_(std::move(title)), every_(every), order_(by) {}

void top_table::take(reading fresh) {
  std::chrono::duration<double> const passed = fresh.answered_at - now_.answered_at;
  if (now_.at.time_since_epoch().count() != 0 && passed.count() > 0)
    handovers_ = changes(now_.locks, fresh.locks) / passed.count();
  now_ = std::move(fresh);
  trouble_.clear();
  used_.clear();
  for (auto const& lock : now_.locks) {
    if (!traits(lock.holder.strategy).counted || lock.holder.limit == 0 || !lock.unknown.empty()) continue;
    auto& permits = used_[lock.name];
    permits.used += lock.holder.units;
    permits.limit = lock.holder.limit;
  }
  std::erase_if(used_, [&](auto const& one) { return one.second.limit <= 0; });
  arrange();
}

void top_table::fail(std::string why) { trouble_ = std::move(why); }

milliseconds top_table::pause() const { return std::max(every_, 10 * now_.took); }

bool top_table::matches(lock_info const& lock) const {
  return filter_.empty() || contains(printable(lock.name), filter_) ||
         contains(printable(owner_in_column(lock)), filter_) || contains(state_in_column(lock), filter_) ||
         contains(printable(lock.holder.note), filter_);
}

/// What asks for attention is first: held for longest, soon over, with many waiters.
bool top_table::before(lock_info const& a, lock_info const& b) const {
  auto const by = [&](auto const& what) {
    auto const [x, y] = std::pair(what(a), what(b));
    return x == y ? place_of(a) < place_of(b) : x < y;
  };
  switch (order_) {
    case sort_column::since:
      return by([](lock_info const& l) { return std::pair(since(l.holder).empty(), l.holder.acquired_at); });
    case sort_column::left:
      return by([](lock_info const& l) {
        return std::pair(!traits(l.holder.strategy).has_expiry, l.holder.expires_in);
      });
    case sort_column::waiting:
      return by([](lock_info const& l) { return -l.waiting.value_or(-1); });
    case sort_column::owner:
      return by([](lock_info const& l) { return owner_in_column(l); });
    case sort_column::name:
      break;
  }
  return place_of(a) < place_of(b);
}

void top_table::arrange() {
  shown_.resize(now_.locks.size());
  std::iota(shown_.begin(), shown_.end(), std::size_t{0});
  std::erase_if(shown_, [&](std::size_t i) { return !matches(now_.locks[i]); });
  std::sort(shown_.begin(), shown_.end(), [&](std::size_t a, std::size_t b) {
    return reversed_ ? before(now_.locks[b], now_.locks[a]) : before(now_.locks[a], now_.locks[b]);
  });
  auto const same = std::find_if(shown_.begin(), shown_.end(),
                                 [&](std::size_t i) { return place_of(now_.locks[i]) == selected_; });
  if (same != shown_.end()) at_ = static_cast<std::size_t>(same - shown_.begin());
  // The details and a question stay with their lock, which may be gone.
  if (mode_ != mode::details && mode_ != mode::question) move(0);
}

lock_info const* top_table::selected() const {
  if (at_ >= shown_.size() || place_of(now_.locks[shown_[at_]]) != selected_) return nullptr;
  return &now_.locks[shown_[at_]];
}

void top_table::move(std::ptrdiff_t by) {
  auto const last = std::ssize(shown_) - 1;
  at_ = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(at_) + by, 0,
                                                            std::max<std::ptrdiff_t>(last, 0)));
  selected_ = shown_.empty() ? std::string() : place_of(now_.locks[shown_[at_]]);
}

wish top_table::press(key const& k) {
  message_.clear();
  bool const leaves = k.what == key::kind::escape || k.what == key::kind::enter || k.text == "q";
  switch (mode_) {
    case mode::question:
      return press_in_question(k);
    case mode::filter:
      press_in_filter(k);
      return {};
    case mode::details:
    case mode::help:
      if (leaves) {
        mode_ = mode::table;
        move(0);
      } else if (k.what == key::kind::down || k.text == "j") {
        ++scrolled_;
      } else if (k.what == key::kind::up || k.text == "k") {
        scrolled_ -= std::min<std::size_t>(scrolled_, 1);
      } else if (mode_ == mode::details && k.text == "x") {
        ask();
      }
      return {};
    case mode::table:
      break;
  }
  return press_in_table(k);
}

wish top_table::press_in_table(key const& k) {
  auto const page = static_cast<std::ptrdiff_t>(page_);
  auto const all = std::ssize(now_.locks);
  auto const sort_by = [&](int step) {
    order_ =
        static_cast<sort_column>((static_cast<int>(order_) + step + std::ssize(orders)) % std::ssize(orders));
    arrange();
  };
  auto const enter = [&](mode next) {
    mode_ = next;
    scrolled_ = 0;
  };
  using kind = key::kind;
  if (k.what == kind::up || k.text == "k") move(-1);
  if (k.what == kind::down || k.text == "j") move(1);
  if (k.what == kind::page_up) move(-page);
  if (k.what == kind::page_down || k.text == " ") move(page);
  if (k.what == kind::home || k.text == "g") move(-all);
  if (k.what == kind::end || k.text == "G") move(all);
  if (k.what == kind::enter && selected() != nullptr) enter(mode::details);
  if (k.what == kind::escape && !filter_.empty()) {
    filter_.clear();
    arrange();
  }
  if (k.text == "/") enter(mode::filter);
  if (k.text == "h" || k.text == "?") enter(mode::help);
  if (k.text == "s") sort_by(1);
  if (k.text == "S") sort_by(-1);
  if (k.text == "r") {
    reversed_ = !reversed_;
    arrange();
  }
  if (k.text == "x") ask();
  return {k.text == "q" ? wish::kind::quit : wish::kind::nothing};
}

void top_table::press_in_filter(key const& k) {
  if (k.what == key::kind::enter || k.what == key::kind::escape) mode_ = mode::table;
  if (k.what == key::kind::escape) filter_.clear();
  if (k.what == key::kind::text) filter_ += k.text;
  if (k.what == key::kind::backspace && !filter_.empty()) {
    while ((static_cast<unsigned char>(filter_.back()) & 0xc0) == 0x80) filter_.pop_back();
    filter_.pop_back();
  }
  arrange();
}

void top_table::ask() {
  auto const* lock = selected();
  if (lock == nullptr) return;
  if (!lock->held) {
    message_ = fmt::format("'{}' has no holder", lock->name);
  } else if (!traits(lock->holder.strategy).revocable) {
    message_ = fmt::format("'{}' ends with its database session, and can't be revoked", lock->name);
  } else {
    asked_ = *lock;
    mode_ = mode::question;
  }
}

wish top_table::press_in_question(key const& k) {
  mode_ = mode::table;
  auto const about = *std::exchange(asked_, std::nullopt);
  auto const* lock = selected();
  bool const same = lock != nullptr && term_of(*lock) == term_of(about);
  move(0);
  if (k.text != "y" && k.text != "Y") {
    message_ = "nothing was revoked";
    return {};
  }
  if (!same) {
    message_ = fmt::format("nothing was revoked: '{}' has changed hands meanwhile", about.name);
    return {};
  }
  return {wish::kind::revoke, about.name, about.term};
}

std::string top_table::summary() const {
  std::set<std::string_view> names;
  int expired = 0;
  int waiting = 0;
  int blocked_rows = 0;
  for (auto const& lock : now_.locks) {
    names.insert(lock.name);
    expired += std::string_view(state_of(lock)) == "expired" ? 1 : 0;
    waiting += lock.waiting.value_or(0);
    blocked_rows += blocked(lock) ? 1 : 0;
  }
  auto text = fmt::format("{}{} held", now_.cut ? "the first " : "", now_.locks.size());
  if (names.size() != now_.locks.size()) text += fmt::format(" of {} names", names.size());
  if (expired > 0) text += fmt::format(", {} expired", expired);
  text += fmt::format(", {} waiting", waiting);
  if (blocked_rows > 0) text += fmt::format(", {} blocked", blocked_rows);
  if (handovers_) text += fmt::format(", {:.1f} hand-overs/s", *handovers_);
  return text;
}

std::string top_table::status() const {
  if (mode_ == mode::filter) return "/" + filter_;
  if (!message_.empty()) return message_;
  if (!trouble_.empty()) return "no answer: " + trouble_;
  if (mode_ == mode::details) return "Enter back  x revoke";
  if (mode_ == mode::help) return "Enter back";
  return "q quit  h help  Enter details  / filter  s sort  r reverse  x revoke";
}

std::vector<std::string> top_table::details(lock_info const& lock, std::size_t width) const {
  constexpr std::size_t indent = 12;
  auto const& h = lock.holder;
  std::vector<std::string> lines;
  auto const add = [&](std::string_view heading, std::string_view text) {
    if (text.empty()) return;
    for (auto const& part : wrapped(text, width - std::min(width, indent)))
      lines.push_back(fmt::format("{:<{}}{}", std::exchange(heading, ""), indent, part));
  };
  add("name", lock.name);
  add("state", state_in_column(lock));
  add("why", lock.unknown);
  if (!lock.unknown.empty()) return lines;
  add("strategy", to_string(h.strategy));
  add("owner", owner_of(h));
  add("since", since(h));
  add("left", left_in_column(lock));
  if (h.token) add("token", std::to_string(h.token.value));
  add("term", lock.term.value);
  if (auto const found = used_.find(lock.name); found != used_.end())
    add("used",
        fmt::format("{} of this holder; {} of {} in all", h.units, found->second.used, found->second.limit));
  add("note", h.note);
  for (auto const& one : lock.row_locked_by)
    add(owns_session(lock) ? "held by" : "row locked", session_in_words(one));
  add("waiting", lock.waiting ? std::to_string(*lock.waiting) : "the database does not tell");
  for (auto const& one : lock.waiters) add("", session_in_words(one));
  return lines;
}

/// In the order of all_columns(); 0: left out. The most important ones first get their least, then what the
/// rows need.
std::vector<std::size_t> top_table::widths(std::size_t width, std::size_t first, std::size_t end) const {
  auto const& all = all_columns();
  std::vector<std::size_t> of(all.size());
  std::vector<std::size_t> by_rank(all.size());
  std::iota(by_rank.begin(), by_rank.end(), std::size_t{0});
  std::sort(by_rank.begin(), by_rank.end(), [&](auto a, auto b) { return all[a].rank < all[b].rank; });
  std::size_t used = 0;
  for (auto const i : by_rank) {
    auto const wanted = all[i].least + (used == 0 ? 0 : 1);
    if (used == 0 || used + wanted <= width) {
      of[i] = std::min(all[i].least, width);
      used += used == 0 ? of[i] : wanted;
    } else {
      break;
    }
  }
  for (auto const i : by_rank) {
    if (of[i] == 0) continue;
    std::size_t natural = 0;
    for (auto row = first; row < end; ++row)
      natural = std::max(natural, cells(all[i].text(*this, now_.locks[shown_[row]])));
    auto const more = std::min(std::min(natural, std::max(of[i], width / 2)) - std::min(natural, of[i]),
                               width - std::min(width, used));
    of[i] += more;
    used += more;
  }
  return of;
}

std::string top_table::row(lock_info const* lock, std::vector<std::size_t> const& widths) const {
  std::string text;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == 0) continue;
    auto const& of = all_columns()[i];
    text += text.empty() ? "" : " ";
    text += fitted(lock == nullptr ? of.heading : of.text(*this, *lock), widths[i]);
  }
  return trimmed(std::move(text));
}

std::vector<screen_line> top_table::table_lines(std::size_t width, std::size_t count) {
  bool const headed = count >= 2;
  page_ = std::max<std::size_t>(count - (headed ? 1 : 0), 1);
  top_ = std::min(top_, at_);
  if (at_ >= top_ + page_) top_ = at_ - page_ + 1;
  if (top_ + page_ > shown_.size()) top_ = shown_.size() - std::min(shown_.size(), page_);
  auto const end = std::min(shown_.size(), top_ + page_);
  auto const of = widths(width - std::min<std::size_t>(width, 1), top_, end);
  std::vector<screen_line> lines;
  if (headed) lines.push_back(line(' ' + row(nullptr, of), width, look::heading));
  for (auto i = top_; i < end; ++i) {
    auto const& lock = now_.locks[shown_[i]];
    std::string_view const state = state_of(lock);
    auto const how = state == "unknown" || blocked(lock)        ? look::alarm
                     : state == "expired" || state == "revoked" ? look::warning
                                                                : look::plain;
    lines.push_back({how, (i == at_ ? '>' : ' ') + row(&lock, of), i == at_});
  }
  return lines;
}

std::vector<screen_line> top_table::screen(std::size_t width, std::size_t height) {
  std::vector<screen_line> lines;
  if (width == 0 || height == 0) return std::vector<screen_line>(height);
  std::size_t const heads = height >= 8 ? 3 : height >= 5 ? 1 : 0;
  if (heads > 0)
    lines.push_back(line(fmt::format("{}  {}  every {}{}", title_, utc(now_.at).substr(11),
                                     format_duration(pause()), pause() > every_ ? " (slow answers)" : ""),
                         width));
  if (heads > 1) {
    lines.push_back(line(summary(), width));
    lines.push_back(
        line(fmt::format("by {}{}{}", orders.at(static_cast<std::size_t>(order_)).second,
                         reversed_ ? ", reversed" : "",
                         filter_.empty() ? "" : fmt::format("; {} with '{}'", shown_.size(), filter_)),
             width));
  }
  bool const has_status = height >= 2;
  auto const rows = height - lines.size() - (has_status ? 1 : 0);
  if (mode_ == mode::details || mode_ == mode::help) {
    std::vector<std::string> text;
    if (mode_ == mode::help) {
      text = lines_of(help_text.substr(1));
    } else if (auto const* lock = selected()) {
      text = details(*lock, width);
    } else {
      text.emplace_back("It is not held any more.");
    }
    scrolled_ = std::min(scrolled_, text.size() - std::min(text.size(), rows));
    for (auto i = scrolled_; i < std::min(text.size(), scrolled_ + rows); ++i)
      lines.push_back(line(text[i], width));
  } else {
    for (auto& one : table_lines(width, rows)) lines.push_back(std::move(one));
  }
  lines.resize(height - (has_status ? 1 : 0));
  if (mode_ == mode::question) {
    constexpr std::string_view answers = "? y/N ";
    auto const question = fmt::format("Revoke '{}' of {}", asked_->name, owner_in_column(*asked_));
    auto const room = width - std::min(width, answers.size());
    auto text = trimmed(fitted(question, room)) + std::string(answers);
    lines.resize(height - 1);
    lines.push_back(line(std::move(text), width, look::prompt));
  } else if (has_status) {
    lines.push_back(line(status(), width, look::prompt));
  }
  return lines;
}

std::string top_table::plain(std::size_t width) const {
  auto const of = widths(width, 0, shown_.size());
  auto text = trimmed(fitted(summary(), width)) + '\n' + row(nullptr, of) + '\n';
  for (auto const i : shown_) text += row(&now_.locks[i], of) + '\n';
  return text;
}

}  // namespace rowlock::tool

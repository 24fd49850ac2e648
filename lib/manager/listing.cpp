#include "manager/listing.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace rowlock::managing {
namespace {

/// Rows in a reply. With the longest texts a reply is just below wire's most_reply_bytes.
constexpr std::int64_t at_a_time = 1000;
/// Rows that one statement examines.
constexpr std::int64_t window = 2000;

/// The next possible name.
std::string behind(std::string name) { return name += '\x01'; }

}  // namespace

lock_info as_info(strategies::term_row row) {
  bool const held = !row.term.empty() && !row.holder.done;
  return {std::move(row.name), held, std::move(row.holder), std::move(row.unreadable)};
}

listing::listing(engine& e, backend::connection& session, list_options const& o)
    : engine_(e), session_(session), names_(o.glob), prefix_(names_.prefix()) {
  auto const from = std::max(prefix_, o.after.empty() ? std::string() : behind(o.after));
  wanted_ = {o.idle, o.done, o.held_longer_than, names_.like(), from, {}, at_a_time};
  permits_wanted_ = {o.held_longer_than, wanted_.like, from, {}, at_a_time};
}

std::vector<lock_info> listing::next() {
  for (;;) {
    while (locks_.empty() && !all_locks_) read_locks();
    while (permits_.empty() && !all_permits_) read_permits();
    if (locks_.empty() && permits_.empty()) return {};
    auto const wanted = permits_.empty() || (!locks_.empty() && locks_.front().name < permits_.front().name)
                            ? locks_.front().name
                            : permits_.front().name;
    std::vector<lock_info> found;
    while (!locks_.empty() && locks_.front().name == wanted) {
      found.push_back(std::move(locks_.front()));
      locks_.pop_front();
    }
    while (!permits_.empty() && permits_.front().name == wanted) {
      found.push_back(std::move(permits_.front()));
      permits_.pop_front();
      if (permits_.empty() && !all_permits_) read_permits();
    }
    if (names_.matches(wanted)) return found;
  }
}

/// @return false if no more rows have the prefix
bool listing::begin_window() {
  if (wanted_.from > prefix_ && !wanted_.from.starts_with(prefix_)) return false;
  auto end = engine_.tables.locks.list_end(session_, wanted_.from, window, engine_.reply_deadline());
  if (!end || *end < wanted_.from) return false;
  wanted_.to = *std::move(end);
  by_sessions_.clear();
  strategies::name_range const names{wanted_.from, wanted_.to, wanted_.held_longer_than};
  for (auto const& [which, strategy] : engine_.strategies)
    for (auto& held : strategy->holders(session_, names, engine_.reply_deadline()))
      by_sessions_.insert_or_assign(std::move(held.name), std::move(held.by));
  return true;
}

void listing::read_locks() {
  if (wanted_.to.empty() && !begin_window()) {
    all_locks_ = true;
    return;
  }
  auto rows = engine_.tables.locks.list(session_, wanted_, engine_.reply_deadline());
  bool const more = std::ssize(rows) == wanted_.most;
  for (auto& row : rows) {
    wanted_.from = std::max(wanted_.from, row.name);
    bool const told = by_sessions_.contains(row.name);
    add_held_by_sessions(row.name);
    if (!told) locks_.push_back(as_info(std::move(row)));
  }
  if (!more) {
    add_held_by_sessions(wanted_.to);
    wanted_.from = std::exchange(wanted_.to, {});
  }
  wanted_.from = behind(std::move(wanted_.from));
}

void listing::add_held_by_sessions(std::string const& up_to) {
  while (!by_sessions_.empty() && by_sessions_.begin()->first <= up_to) {
    auto held = by_sessions_.extract(by_sessions_.begin());
    locks_.push_back({std::move(held.key()), true, std::move(held.mapped()), {}});
  }
}

void listing::read_permits() {
  auto rows = engine_.tables.permits.list_permits(session_, permits_wanted_, engine_.reply_deadline());
  all_permits_ = std::ssize(rows) < permits_wanted_.most;
  for (auto& row : rows) {
    if (std::tie(row.name, row.term.value) <= std::tie(permits_wanted_.from, permits_wanted_.after)) {
      all_permits_ = true;  // the server does not keep the order
      break;
    }
    permits_wanted_.from = row.name;
    permits_wanted_.after = row.term.value;
    permits_.push_back({std::move(row.name), true, std::move(row.holder), std::move(row.unreadable)});
    permits_.back().term = std::move(row.term);
  }
}

}  // namespace rowlock::managing

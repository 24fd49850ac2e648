#include "quorum/quorum_membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "base/event.hpp"
#include "base/random_id.hpp"
#include "base/text.hpp"

namespace rowlock::voting {

using namespace std::chrono_literals;
using strategies::member_record;

namespace {

constexpr std::chrono::milliseconds shortest_max_ttl = 1s;
constexpr std::chrono::milliseconds longest_max_ttl = 1h;

bool among(std::string const& id, std::vector<std::string> const& all) {
  return std::find(all.begin(), all.end(), id) != all.end();
}

/// The id of the epoch without votes (number 1) before the epoch `epoch_id`: '-', the first half of that id,
/// random digits. It has the column's length.
std::string before_the_first(std::string const& epoch_id) {
  auto const kept = epoch_id.size() / 2;
  return "-" + epoch_id.substr(1, kept) + base::random_id().substr(kept + 1);
}

bool is_before(std::string const& its, std::string const& epoch_id) {
  auto const kept = epoch_id.size() / 2;
  return its.size() == epoch_id.size() && its.front() == '-' &&
         its.substr(1, kept) == epoch_id.substr(1, kept);
}

/// @return whether it was stopped
bool wait_out(std::chrono::milliseconds longest_ttl, std::stop_token const& stop) {
  base::event done;
  std::stop_callback const at_stop(stop, [&] { done.set(); });
  return base::wait_for(done, boot_clock::now() + longest_ttl);
}

}  // namespace

std::vector<quorum_membership::answer> quorum_membership::ask(bool with_highest) {
  std::vector<answer> all(members_.size());
  members_.ask_all([&](std::size_t i) {
    try {
      all[i].state = members_.at(i).read(with_highest);
    } catch (error const& e) {
      all[i].failure = e;
    } catch (std::exception const& e) {
      all[i].failure = error(errc::failed, e.what());
    }
    members_.heard(i, all[i].failure ? &*all[i].failure : nullptr);
  });
  return all;
}

std::vector<quorum_member_info> quorum_membership::status() {
  std::vector<quorum_member_info> all(members_.size());
  members_.ask_all([&](std::size_t i) {
    auto& told = all[i];
    told.database = members_.where(i);
    try {
      auto const& member = members_.at(i);
      (void)member.read(false);  // connects, so that the next read is one round trip
      auto const before = std::chrono::system_clock::now();
      auto const s = member.read(false);
      auto const after = std::chrono::system_clock::now();
      told.clock_ahead =
          std::chrono::round<std::chrono::milliseconds>(s.clock - (before + (after - before) / 2));
      told.highest = member.read(true).highest;
      told.database_id = s.database_id;
      told.quorum_id = s.record.quorum_id;
      told.epoch = s.record.epoch;
      told.epoch_id = s.record.epoch_id;
      told.members = s.record.members;
      told.max_ttl = s.record.max_ttl;
      told.votes = s.record.votes;
      told.server = member.server();
    } catch (std::exception const& e) {
      told.trouble = e.what();
    }
  });
  return all;
}

// Voting members grant locks. A database without a record might have granted some, too, and have forgotten
// it.
void quorum_membership::refuse_who_must_join(std::vector<answer> const& asked) const {
  auto const at = [&](auto const& is_such) {
    return std::find_if(asked.begin(), asked.end(),
                        [&](answer const& a) { return is_such(a.state->record); });
  };
  auto const votes = at([](member_record const& r) { return r.votes; });
  auto const none = at([](member_record const& r) { return r.quorum_id.empty(); });
  if (votes == asked.end() || none == asked.end()) return;
  auto const where = [&](auto const& one) {
    return members_.where(static_cast<std::size_t>(one - asked.begin()));
  };
  throw error(
      errc::invalid_argument,
      fmt::format("{} votes in a quorum, of which {} knows nothing: it has forgotten that, or is new. "
                  "Then it must not vote at once: `rowlock quorum join` has it vote; `rowlock quorum "
                  "drop` ends that quorum",
                  where(votes), where(none)));
}

// In two rounds: a member may grant as soon as it votes, and a member without a record by then has forgotten
// it. Round 1 gives all members the list again, without a vote, in an epoch of this call's own: a slower call
// finds it, and gives up. In round 2 they vote. A call after an interruption learns from the voting members'
// epoch which records are of the same call.
void quorum_membership::init(std::chrono::milliseconds max_ttl, std::stop_token const& stop) {
  if (max_ttl < shortest_max_ttl || max_ttl > longest_max_ttl)
    throw error(errc::invalid_argument,
                fmt::format("a longest ttl of {} ms is out of range: 1 s to 1 h", max_ttl.count()));
  auto const asked = ask(true);
  member_record fresh{base::random_id(), 1, base::random_id(), {}, max_ttl, true};
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].failure) throw error(*asked[i].failure);
    auto const& s = *asked[i].state;
    if (among(s.database_id, fresh.members))
      throw error(errc::invalid_argument,
                  fmt::format("{} is the same database as another one of these: each member needs its own",
                              members_.where(i)));
    fresh.members.push_back(s.database_id);
  }
  refuse_who_must_join(asked);
  member_record const* voting = nullptr;
  for (auto const& a : asked) {
    auto const& r = a.state->record;
    if (r.votes) voting = &r;
    if (!r.quorum_id.empty() && (r.members != fresh.members || r.epoch != 1 || r.max_ttl != max_ttl))
      throw error(errc::invalid_argument,
                  "one of these databases is a member of a quorum already: `rowlock quorum status` tells; "
                  "`rowlock quorum drop` ends that one");
  }
  if (voting != nullptr) {
    fresh.quorum_id = voting->quorum_id;
    fresh.epoch_id = voting->epoch_id;
  }
  auto waits = fresh;
  waits.epoch_id = before_the_first(fresh.epoch_id);
  waits.votes = false;
  std::vector<std::size_t> voteless;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto const& r = asked[i].state->record;
    if (!r.votes) voteless.push_back(i);
    if (voting != nullptr &&
        (r.quorum_id != fresh.quorum_id ||
         (r.votes ? r.epoch_id != fresh.epoch_id : !is_before(r.epoch_id, fresh.epoch_id))))
      throw error(errc::invalid_argument,
                  fmt::format("{} is a member of another quorum: `rowlock quorum status` tells; `rowlock "
                              "quorum drop` ends them all",
                              members_.where(i)));
  }
  if (voteless.empty()) return;
  if (voting == nullptr) raise_to_highest(asked, voteless);  // above the tokens of dropped quorums
  for (auto const i : voteless)
    if (!members_.at(i).write(asked[i].state->record.epoch_id, waits)) throw changed_meanwhile(i);
  if (voting != nullptr) wait_for_who_may_have_voted(voteless, max_ttl, stop);
  for (auto const i : voteless)
    if (!members_.at(i).write(waits.epoch_id, fresh)) throw changed_meanwhile(i);
}

void quorum_membership::raise_to_highest(std::vector<answer> const& asked,
                                         std::vector<std::size_t> const& those) const {
  fencing_token highest;
  for (auto const& a : asked) {
    if (a.failure) throw error(*a.failure);
    highest.value = std::max(highest.value, a.state->highest.value);
  }
  for (auto const i : those) members_.at(i).raise_tokens(highest);
}

// Beside voting members, a member without a vote never had one, or has lost it and its grants (a backup, a
// crash without a flush). So it waits, as at a join, until no such grant is trusted any more, and gets the
// others' tokens.
void quorum_membership::wait_for_who_may_have_voted(std::vector<std::size_t> const& those,
                                                    std::chrono::milliseconds max_ttl,
                                                    std::stop_token const& stop) {
  if (wait_out(max_ttl, stop))
    throw error(errc::closed, fmt::format("{} does not vote yet: `rowlock quorum init` again",
                                          members_.where(those.front())));
  raise_to_highest(ask(true), those);
}

error quorum_membership::changed_meanwhile(std::size_t member) const {
  return error(errc::conflict, fmt::format("another program is changing {} now", members_.where(member)));
}

member_record quorum_membership::next_epoch(std::vector<answer> const& asked, std::size_t place,
                                            std::string const& replaces) const {
  auto const& joins = *asked[place].state;
  member_record const* newest = nullptr;
  std::vector<std::string> others;
  std::size_t voting = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (i == place || !asked[i].state) continue;
    auto const& s = *asked[i].state;
    if (among(s.database_id, others))
      throw error(errc::invalid_argument,
                  fmt::format("{} is the same database as another one of these: name each member once",
                              members_.where(i)));
    others.push_back(s.database_id);
    if (s.database_id == joins.database_id)
      throw error(errc::invalid_argument,
                  fmt::format("{} is the same database as {}", members_.where(place), members_.where(i)));
    if (!s.record.votes) continue;
    ++voting;
    if (newest != nullptr && newest->quorum_id != s.record.quorum_id)
      throw error(errc::not_voting, "the others are members of different quorums: `rowlock quorum status`");
    if (newest == nullptr || s.record.epoch > newest->epoch) newest = &s.record;
  }
  auto const needed = (members_.size() - 1) / 2 + 1;
  if (newest == nullptr || voting < needed)
    throw error(
        errc::not_voting,
        fmt::format("{} of the other members vote and can be asked, and {} are needed: the highest "
                    "token would be unknown. If they can't be had any more: `rowlock quorum drop`, and, "
                    "when no program works under its locks, `init`",
                    voting, needed));
  if (newest->members.size() != members_.size())
    throw error(errc::invalid_argument,
                fmt::format("these are {} databases, and their quorum has {} members: name all of them",
                            members_.size(), newest->members.size()));
  auto next = *newest;
  ++next.epoch;
  next.epoch_id = base::random_id();
  if (among(joins.database_id, next.members)) return next;
  std::vector<std::string> gone;
  for (auto const& id : next.members)
    if (replaces.empty() ? !among(id, others) : id == replaces) gone.push_back(id);
  if (gone.size() != 1 || among(gone.front(), others))
    throw error(
        errc::invalid_argument,
        replaces.empty()
            ? fmt::format("it can't be told which member {} replaces, because not all of the others can "
                          "be asked: one of {}; name it",
                          members_.where(place), fmt::join(gone, ", "))
            : fmt::format("'{}' is not a member that can be replaced", replaces));
  std::replace(next.members.begin(), next.members.end(), gone.front(), joins.database_id);
  return next;
}

// In this order: after the wait no grant of the former epoch is trusted. During the wait only majorities of
// the other members grant in the new one, and each knows the highest token.
void quorum_membership::join(std::size_t place, std::string const& replaces, std::stop_token const& stop) {
  if (place >= members_.size())
    throw error(errc::invalid_argument, fmt::format("there is no member {}", place));
  auto const asked = ask(false);
  if (asked[place].failure) throw error(*asked[place].failure);
  auto next = next_epoch(asked, place, replaces);
  auto const& joins = members_.at(place);
  auto waits = next;
  waits.votes = false;
  if (!joins.write(asked[place].state->record.epoch_id, waits)) throw changed_meanwhile(place);
  std::vector<std::size_t> told;
  std::optional<error> trouble;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (i == place || !asked[i].state || !asked[i].state->record.votes) continue;
    try {
      if (members_.at(i).write(asked[i].state->record.epoch_id, next)) told.push_back(i);
    } catch (error const& e) {  // the other members can be enough
      trouble = e;
    }
  }
  auto const needed = (members_.size() - 1) / 2 + 1;
  if (told.size() < needed && trouble) throw error(*trouble);
  if (told.size() < needed)
    throw error(errc::conflict, "another program is changing the members now: call it again");
  if (wait_out(next.max_ttl, stop))
    throw error(errc::closed, fmt::format("{} does not vote yet: join it again", members_.where(place)));
  fencing_token highest;
  std::size_t heard = 0;
  for (auto const i : told) {
    try {
      auto const s = members_.at(i).read(true);
      if (s.record.epoch_id != next.epoch_id) continue;
      highest.value = std::max(highest.value, s.highest.value);
      ++heard;
    } catch (error const&) {  // the other members can be enough
    }
  }
  if (heard < needed)
    throw error(errc::not_voting,
                fmt::format("only {} of the other members can be asked for their highest token, and {} are "
                            "needed: {} does not vote yet; join it again",
                            heard, needed, members_.where(place)));
  joins.raise_tokens(highest);
  if (!joins.write(next.epoch_id, next)) throw changed_meanwhile(place);
}

quorum_outcome quorum_membership::change(std::size_t needed, std::function<bool(std::size_t)> const& what) {
  std::vector<std::optional<error>> failures(members_.size());
  std::atomic<int> done = 0;
  members_.ask_all([&](std::size_t i) {
    try {
      if (what(i)) ++done;
    } catch (error const& e) {
      failures[i] = e;
    } catch (std::exception const& e) {
      failures[i] = error(errc::failed, e.what());
    }
  });
  quorum_outcome all{done, {}};
  for (std::size_t i = 0; i < failures.size(); ++i)
    if (failures[i]) all.troubles.push_back(fmt::format("{}: {}", members_.where(i), failures[i]->what()));
  if (members_.size() - all.troubles.size() < needed)
    for (auto const& one : failures)
      if (one) throw error(*one);
  return all;
}

// For a quorum that lost most members: one reachable member is enough.
quorum_outcome quorum_membership::drop() {
  return change(1, [&](std::size_t i) {
    auto const& member = members_.at(i);
    auto const its = member.read(false).record;
    return !its.quorum_id.empty() && member.write(its.epoch_id, {});
  });
}

}  // namespace rowlock::voting

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

using namespace std::chrono_literals;

std::size_t quorum_votes(std::vector<quorum_member_info> const& members) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> by_epoch;
  std::size_t most = 0;
  for (auto const& m : members) {
    if (!m.trouble.empty() || !m.votes) continue;
    auto& each = by_epoch[{m.quorum_id, m.epoch_id}];
    each.insert(m.database_id);
    most = std::max(most, each.size());
  }
  return most;
}

std::vector<std::string> quorum_findings(std::vector<quorum_member_info> const& members) {
  std::vector<std::string> all;
  std::map<std::string, std::string> servers;
  std::map<std::string, std::string> ids;
  std::map<std::string, int> quorums;
  std::int64_t newest = 0;
  std::size_t size = 0;
  for (auto const& m : members) {
    if (!m.trouble.empty()) {
      all.push_back(fmt::format("{}: {}", m.database, m.trouble));
      continue;
    }
    if (auto const [other, is_new] = ids.emplace(m.database_id, m.database); !is_new)
      all.push_back(fmt::format("{} and {} are the same database", other->second, m.database));
    else if (auto const [beside, alone] = servers.emplace(m.server, m.database); !alone)
      all.push_back(
          fmt::format("{} and {} are on the same server: they fail together", beside->second, m.database));
    if (m.quorum_id.empty()) {
      all.push_back(fmt::format("{} belongs to no quorum: {}", m.database,
                                quorum_votes(members) > 0 ? "join it" : "init, or join"));
      continue;
    }
    ++quorums[m.quorum_id];
    if (m.epoch > newest) size = m.members.size();
    newest = std::max(newest, m.epoch);
    if (m.clock_ahead > 1s || m.clock_ahead < -1s)
      all.push_back(fmt::format("{}: its clock is {} ms {} this machine's", m.database,
                                std::abs(m.clock_ahead.count()),
                                m.clock_ahead.count() > 0 ? "ahead of" : "behind"));
    auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    if (m.highest.value > now + 366LL * 24 * 3600 * 1'000'000)
      all.push_back(
          fmt::format("{}: its tokens are more than a year ahead of this machine's clock: what it "
                      "grants is not counted",
                      m.database));
  }
  if (quorums.size() > 1) all.emplace_back("they are members of different quorums");
  auto const begun = std::find_if(members.begin(), members.end(), [&](quorum_member_info const& m) {
    return m.trouble.empty() && !m.quorum_id.empty() && m.epoch == newest && !m.votes;
  });
  for (auto const& m : members) {
    if (!m.trouble.empty() || m.quorum_id.empty()) continue;
    if (m.epoch < newest)
      all.push_back(
          begun != members.end()
              ? fmt::format(
                    "{} is in epoch {}, and the newest is {}: its join was not finished; join {} again",
                    m.database, m.epoch, newest, begun->database)
              : fmt::format("{} is in epoch {}, and the newest is {}: join it", m.database, m.epoch, newest));
    else if (!m.votes)
      all.push_back(fmt::format("{} does not vote: its {} was not finished; {} again", m.database,
                                m.epoch == 1 ? "init" : "join", m.epoch == 1 ? "init" : "join it"));
  }
  auto const voting = quorum_votes(members);
  if (size > 0 && size != members.size())
    all.push_back(fmt::format("their quorum has {} members, and these are {}", size, members.size()));
  if (size > 0 && voting < size / 2 + 1)
    all.push_back(
        fmt::format("{} of {} members vote: no lock can be had; {} are needed", voting, size, size / 2 + 1));
  return all;
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

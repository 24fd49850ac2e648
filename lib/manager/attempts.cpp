#include "manager/attempts.hpp"

#include <algorithm>
#include <span>

#include "base/process_end.hpp"
#include "base/random_id.hpp"
#include "manager/server_wait.hpp"
#include "manager/start_holding.hpp"
#include "manager/unusable.hpp"
#include "manager/wait_policy.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/quarantine.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

attempts::attempts(engine& e, std::span<lock_spec const> specs, owner_id owner, std::stop_token stop)
    : engine_(e),
      specs_(specs),
      any_(specs.front()),
      strategy_(e.strategies.of(any_.strategy)),
      owner_(std::move(owner)),
      stop_(std::move(stop)),
      takes_(e, {any_.strategy, any_.options.takeover, any_.options.ttl, any_.fencing}),
      rows_(specs.size()),
      watch_(specs.size()) {
  if (!any_.permit) return;
  permit_.units = any_.permit->units;
  permit_.limit = any_.permit->limit;
  permit_.intent = base::random_id();
}

void attempts::look_at(std::size_t i, std::optional<holder_info> holder) {
  rows_[i].reset();
  busy_.reset();
  if (!holder) return;
  rows_[i].emplace().holder = *std::move(holder);
  busy_ = i;
}

strategies::take_request attempts::request() const {
  auto const& o = any_.options;
  bool const looks_first = one() && seen() != nullptr && !seen()->term.empty();
  return {one() ? any_.name : std::string(),
          {},
          owner_,
          o.ttl,
          o.hard_limit,
          o.takeover,
          any_.fencing,
          o.note,
          looks_first,
          nullptr,
          tokens_,
          permit_,
          vote_.value_or(strategies::wanted_vote{}),
          holding::needs_flush(o.renew, o.at_least, owner_, bool(o.on_trust), o.ttl)};
}

bool attempts::wait_in_server(std::optional<boot_time_point> until) {
  auto what = request();
  what.term = {base::random_id()};
  boot_time_point sent_at;
  auto got = managing::wait_in_server(engine_, strategy_, what, until, stop_, sent_at);
  auto const* const refused = std::get_if<strategies::refused>(&got);
  if (refused != nullptr && !refused->row &&
      quarantine_ended(*engine_.session_to_write(engine_.reply_deadline())))
    return wait_in_server(until);
  if (auto* const why_not = std::get_if<strategies::refused>(&got)) {
    saw({.read = {std::move(why_not->row)}, .by_nobody = why_not->by_nobody});
    return false;
  }
  auto& won = std::get<server_grant>(got);
  granted_.push_back({facts_of(any_, owner_, won.token, what.term, sent_at, 0), std::move(won.anchor)});
  return true;
}

void attempts::report_wait() const noexcept {
  auto const& tell = any_.options.on_wait;
  if (tell) engine_.events.call([&] { tell(seen() == nullptr ? nullptr : &seen()->holder); });
}

bool attempts::was_done() const noexcept {
  return seen() != nullptr && seen()->holder.done && seen()->holder.expires_in > 0ms;
}

void attempts::draw_for_others() noexcept {
  if (one()) tokens_ = strategy_.most_tokens();
}

bool attempts::make(std::optional<boot_time_point> wait_until, strategies::wanted_permit::place where,
                    backend::connection* on) {
  contended_ = false;
  quarantined_until_ = {};
  if (!one()) busy_.reset();
  permit_.where = where;
  granted_.clear();
  auto const tell = [this] {
    if (contended_) engine_.pool_of(any_.strategy).locked_out();
  };
  try {
    bool const had = traits(any_.strategy).waits_in_server ? wait_in_server(wait_until)
                     : on != nullptr                       ? ask(*on)
                                                           : ask();
    tell();
    return had;
  } catch (error const& e) {
    contended_ = e.reason() == errc::row_locked;
    tell();
    for (auto const& s : specs_) refuse_if_unusable(engine_, e, s.name);
    throw;
  }
}

bool attempts::ask() {
  bool const busy = seen() != nullptr && !seen()->term.empty();
  if (one() && strategy_.most_at_once() > 1 && takes_.none() && !busy && !owner_.is_explicit())
    if (auto const got = ask_with_others()) return *got;
  return ask(*engine_.session_to_write(engine_.reply_deadline(), stop_));
}

// See lib/doc/together.md.
std::optional<bool> attempts::ask_with_others() {
  shared_take mine{&strategy_, request()};
  auto const turn = engine_.traffic.takes.join(mine, engine_.reply_deadline(), stop_);
  if (!turn.served()) return ask(*engine_.session_to_write(engine_.reply_deadline(), stop_));
  if (!mine.doubtful && mine.failed) throw error(*mine.failed);
  if (!mine.doubtful && !mine.won) return std::nullopt;
  takes_.abandon();
  takes_.send({{any_.name, std::move(mine.what.term)}}, mine.what.tokens);
  takes_.sent()->sent_at = mine.sent_at;
  if (mine.doubtful) {
    takes_.reply_was_lost();
    if (mine.failed) throw error(*mine.failed);
    throw error(errc::in_doubt, "no memory for the reply");
  }
  return accept(std::span(&mine.won->token, 1), mine.won->tokens, mine.server);
}

bool attempts::ask(backend::connection& session) {
  if (!takes_.none() && found_granted(session, takes_.look(session))) return true;
  if (stop_.stop_requested() || base::process_ends_elsewhere())
    return false;  // connecting might have taken long
  if (take(session, {})) return true;
  if (found_granted(session, takes_.look_at(session, rows_))) return true;
  auto const old = what_may_be_superseded(session);
  return old && take(session, *old);
}

bool attempts::take(backend::connection& session, to_be_superseded const& old) {
  takes_.abandon();
  try {
    auto const once = [&] {
      return sessions::retry_deadlocks(engine_.events, any_.name, engine_.reply_deadline(),
                                       [&] { return send(session, old); });
    };
    auto came = once();
    if (came.tokens.empty() && (came.by_nobody || !old.empty()) && quarantine_ended(session)) came = once();
    if (!came.tokens.empty()) return accept(session, came.tokens, came.drawn);
    saw(std::move(came));
    if (refused_by_itself())
      takes_.reply_was_lost();
    else
      takes_.settle();
    return false;
  } catch (error const& e) {
    takes_.failed(e.reason());
    throw;
  }
}

attempts::outcome attempts::send(backend::connection& session, to_be_superseded const& old) {
  auto how = request();
  auto ids = base::random_ids(specs_.size());
  std::vector<strategies::name_and_term> what;
  what.reserve(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) what.push_back({specs_[i].name, {std::move(ids[i])}});
  takes_.send(std::move(what), how.tokens);
  return one() ? send_one(session, std::move(how), old) : send_all(session, how, old);
}

attempts::outcome attempts::send_one(backend::connection& session, strategies::take_request how,
                                     to_be_superseded const& old) {
  auto& sent = *takes_.sent();
  how.term = sent.what.front().term;
  auto came = strategy_.take(session, how, old.empty() ? std::nullopt : old.front(), engine_.reply_deadline(),
                             sent.sent_at);
  if (auto const* const won = std::get_if<strategies::granted>(&came))
    return {.tokens = {won->token}, .drawn = won->tokens};
  auto& why_not = std::get<strategies::refused>(came);
  if (why_not.waited_for) waited_for_until_ = std::chrono::steady_clock::now() + 500ms;
  return {.read = {std::move(why_not.row)}, .by_nobody = why_not.by_nobody};
}

attempts::outcome attempts::send_all(backend::connection& session, strategies::take_request const& how,
                                     to_be_superseded const& old) {
  auto& sent = *takes_.sent();
  std::vector<strategies::wanted_lock> wanted;
  wanted.reserve(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i)
    wanted.push_back({sent.what[i].name, sent.what[i].term, old.empty() ? std::nullopt : old[i]});
  auto came = strategy_.take_all(session, how, wanted, engine_.reply_deadline(), sent.sent_at);
  if (auto* const won = std::get_if<strategies::all_granted>(&came))
    return {.tokens = std::move(won->tokens)};
  outcome refused{.read = std::move(std::get<strategies::all_refused>(came).rows)};
  refused.by_nobody = std::all_of(refused.read.begin(), refused.read.end(),
                                  [](auto const& row) { return !row || row->takeable(); });
  return refused;
}

// Among several names, a name without a holder is not busy.
void attempts::saw(outcome came) {
  rows_ = std::move(came.read);
  contended_ = came.by_nobody && !quarantined();
  auto const at = std::find_if(rows_.begin(), rows_.end(),
                               [&](auto const& row) { return row && (one() || !row->takeable()); });
  busy_.reset();
  if (at != rows_.end()) busy_ = static_cast<std::size_t>(at - rows_.begin());
}

bool attempts::refused_by_itself() noexcept {
  auto const& sent = takes_.sent()->what;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i] && rows_[i]->term == sent[i].term) return true;
  return false;
}

// Looks at each row, because each is watched.
// @return empty if a held term can't be taken over, or no term is held
std::optional<attempts::to_be_superseded> attempts::what_may_be_superseded(backend::connection& session) {
  to_be_superseded old(rows_.size());
  bool any = false;
  bool all = true;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    auto const& row = rows_[i];
    if (!row || row->term.empty() || (!one() && row->takeable())) continue;
    // Not a revoked term: the previous holder has to release it first, or it expires. [C33]
    auto const& by = row->holder;
    if (owner_.is_explicit() && by.owner.same(owner_) && !by.revoked)
      old[i] = strategies::superseded{row->term, std::nullopt};
    else
      old[i] = watch(session, i);
    any = any || old[i];
    all = all && old[i];
  }
  if (!any || !all) return std::nullopt;
  return old;
}

// Seen and watched in one incarnation of the database: a term and its renewals can come back as they were.
std::optional<strategies::superseded> attempts::watch(backend::connection& session, std::size_t i) {
  auto const& row = *rows_[i];
  auto incarnation = std::optional<std::int64_t>(0);
  if (row.must_be_silent_for())
    incarnation = strategies::incarnation_of(session, engine_.database.statements(), {row.name, row.term},
                                             row.renewals, engine_.reply_deadline());
  if (incarnation) return watch_[i].look(row, *incarnation, engine_.observations, vote_.has_value());
  watch_[i].forget();
  return std::nullopt;
}

bool attempts::quarantine_ended(backend::connection& session) {
  auto const now = strategies::settle_quarantine(session, engine_.database.statements(), any_.options.ttl,
                                                 engine_.reply_deadline());
  if (now.left > 0ms) {
    quarantined_until_ = boot_clock::now() + now.left;
    // One event for each time, also where a freeze is thawed and another one begins.
    auto const told = engine_.told_of_quarantine_until.exchange(quarantined_until_);
    if (told < quarantined_until_ - 2s || told > quarantined_until_ + 2s)
      engine_.events.report({.kind = event_kind::quarantined,
                             .name = any_.name,
                             .duration = now.left,
                             .message = strategies::reason_of(now)});
  }
  return now.changed && now.left == 0ms;
}

bool attempts::found_granted(backend::connection& session, doubtful_takes::outcome came) {
  if (came != doubtful_takes::outcome::granted) return false;
  auto const& found = *takes_.sent();
  return accept(session, found.tokens, any_.fencing ? found.drawn : 1);
}

bool attempts::accept(backend::connection& session, std::span<fencing_token const> tokens, int drawn) try {
  return accept(tokens, drawn, engine_.database.server_of(session));
} catch (error const&) {
  takes_.give_back(session);
  throw;
}

bool attempts::accept(std::span<fencing_token const> tokens, int drawn, std::size_t server) {
  auto const& sent = *takes_.sent();
  std::vector<grant> won;
  won.reserve(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    won.push_back({facts_of(specs_[i], owner_, tokens[i], sent.what[i].term, sent.sent_at, server)});
    won.back().facts.tokens_left = static_cast<std::uint8_t>(drawn - 1);
  }
  takes_.refuse_if_late(holding::first_trust(won.front().facts));
  granted_ = std::move(won);
  return true;
}

std::optional<std::chrono::milliseconds> attempts::can_be_had_in() const {
  if (quarantined())
    return std::chrono::ceil<std::chrono::milliseconds>(quarantined_until_ - boot_clock::now());
  return busy_ ? watch_[*busy_].can_be_had_in(*rows_[*busy_]) : std::nullopt;
}

}  // namespace rowlock::managing

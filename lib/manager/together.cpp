#include "manager/together.hpp"

#include <algorithm>
#include <rowlock/error.hpp>
#include <tuple>
#include <vector>

#include "base/process_end.hpp"
#include "base/random_id.hpp"
#include "base/text.hpp"
#include "manager/engine.hpp"

namespace rowlock::managing {
namespace {

/// Each name once, in the order in which rows are locked.
template <class Job, class Name>
std::vector<Job*> in_order(std::span<Job* const> jobs, Name name) {
  std::vector<Job*> all(jobs.begin(), jobs.end());
  std::stable_sort(all.begin(), all.end(), [&](Job* a, Job* b) { return name(*a) < name(*b); });
  all.erase(std::unique(all.begin(), all.end(), [&](Job* a, Job* b) { return name(*a) == name(*b); }),
            all.end());
  return all;
}

/// Reports a lost reply or a locked database to all jobs. After other errors each tries alone.
template <class Job>
void tell_all(engine& in, std::span<Job* const> jobs, error const& e) {
  bool const is_locked = e.reason() == errc::row_locked && in.database.sql().writes_lock_database;
  if (e.reason() != errc::in_doubt && !is_locked) return;
  for (auto* one : jobs)  // not a copy: copies of an exception share its text
    one->failed.emplace(e.reason(), base::plain_message(e), e.statement(), e.sqlstate(), e.native_code());
}

}  // namespace

bool go_together(shared_take const& a, shared_take const& b) noexcept {
  auto const common = [](shared_take const& t) {
    auto const& w = t.what;
    return std::tie(t.strategy, w.owner.host, w.owner.pid, w.owner.process, w.ttl, w.hard_limit, w.takeover,
                    w.fencing, w.note, w.tokens, w.durable);
  };
  return common(a) == common(b);
}

void take_together(engine& e, backend::connection& session, std::span<shared_take* const> jobs) noexcept {
  std::vector<shared_take*> all;
  try {
    if (e.closing.stop_requested() || base::process_ends_elsewhere())
      return;  // each call notices that itself
    all = in_order(jobs, [](shared_take const& t) -> std::string const& { return t.what.name; });
    std::vector<strategies::wanted_lock> wanted;
    wanted.reserve(all.size());
    auto ids = base::random_ids(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto* const one = all[i];
      one->what.term = {std::move(ids[i])};
      wanted.push_back({one->what.name, one->what.term, std::nullopt, one->what.owner.thread});
    }
    auto const server = e.database.server_of(session);
    boot_time_point sent_at;
    auto const was_sent = [&](bool doubtful) noexcept {
      for (auto* one : all) {
        one->doubtful = doubtful;
        one->sent_at = sent_at;
        one->server = server;
      }
    };
    try {
      auto const& first = *all.front();
      auto const won = first.strategy->take_each(session, first.what, wanted, e.reply_deadline(), sent_at);
      for (std::size_t i = 0; i < all.size(); ++i) all[i]->won = won[i];
      was_sent(false);
    } catch (error const& problem) {
      was_sent(problem.reason() == errc::in_doubt);  // before tell_all(), which needs memory
      tell_all(e, std::span<shared_take* const>(all), problem);
    } catch (std::exception const&) {  // no memory for the reply
      was_sent(true);
    }
  } catch (std::exception const&) {  // no memory before anything was sent. Each tries alone
  }
}

void release_together(engine& e, backend::connection& session,
                      std::span<shared_release* const> jobs) noexcept {
  try {
    auto const deadline = (*std::min_element(jobs.begin(), jobs.end(), [](auto const* a, auto const* b) {
                            return a->deadline < b->deadline;
                          }))->deadline;
    auto const all =
        in_order(jobs, [](shared_release const& r) -> std::string const& { return r.which.name; });
    std::vector<strategies::name_and_term> which;
    which.reserve(all.size());
    for (auto* one : all) which.push_back(one->which);
    auto const tables = e.database.tables();
    try {
      auto const done = all.front()->strategy->give_back_all(session, which, deadline);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i]->done = done[i];
        if (!done[i].others_wait)
          all[i]->done.others_wait = session.is_waited_for(tables, all[i]->which.name);
      }
    } catch (error const& problem) {
      tell_all(e, std::span<shared_release* const>(all), problem);
    }
  } catch (std::exception const&) {  // no memory
  }
}

traffic::traffic(engine& e)
    : takes(
          {}, "rowlock-take", go_together,
          [&e] { return e.session_to_write(e.reply_deadline(), e.closing.get_token()); },
          [&e](auto& session, auto jobs) { take_together(e, *session, jobs); }),
      releases(
          {}, "rowlock-release",
          [](shared_release const& a, shared_release const& b) noexcept { return a.strategy == b.strategy; },
          [&e] { return e.session_to_write(e.reply_deadline()); },
          [&e](auto& session, auto jobs) { release_together(e, *session, jobs); }) {}

void traffic::stop(std::thread::id spare) noexcept {
  takes.stop(spare);
  releases.stop(spare);
}

}  // namespace rowlock::managing

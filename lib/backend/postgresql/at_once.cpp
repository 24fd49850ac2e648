// Several statements in one round trip, by a pipeline. Whole transactions: BEGIN, the statements and COMMIT
// with one Sync. The server skips everything after a failed statement, so COMMIT is either answered or did
// not run. Without an answer the outcome is in doubt. Or each in autocommit: a Sync behind each of them.

#include <algorithm>
#include <string_view>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/session.hpp"
#include "backend/postgresql/settings.hpp"
#include "backend/postgresql/values.hpp"
#include "base/never_destroyed.hpp"

namespace rowlock::backend::postgresql {
namespace {

constexpr char const* begin_text = "BEGIN ISOLATION LEVEL READ COMMITTED";

statement const& commit_statement() {
  static auto const& s = base::never_destroyed<statement>(statement{"commit", "COMMIT"});
  return s;
}

bool send_text(PGconn* c, char const* text) {
  return PQsendQueryParams(c, text, 0, nullptr, nullptr, nullptr, nullptr, 0) == 1;
}

bool send_prepared(PGconn* c, std::string const& name, text_parameters const* texts) {
  return PQsendQueryPrepared(c, name.c_str(), texts == nullptr ? 0 : texts->count(),
                             texts == nullptr ? nullptr : texts->data(), nullptr, nullptr, 0) == 1;
}

}  // namespace

statement const& session::begin_statement() {
  static auto const& s = base::never_destroyed<statement>(statement{"begin", begin_text});
  return s;
}

/// The server's names of BEGIN, the steps and COMMIT. Behind a pooler nothing is prepared: the next
/// transaction can reach another session.
std::vector<std::string> session::names_of(std::span<step const> steps, boot_time_point deadline) {
  std::vector<std::string> names;
  if (pooling_ == pooling::transaction) return names;
  names.push_back(prepare(begin_statement(), deadline).server_name);
  for (auto const& one : steps) names.push_back(prepare(one.what, deadline).server_name);
  names.push_back(prepare(commit_statement(), deadline).server_name);
  return names;
}

bool session::send_transaction(std::span<step const> steps, std::span<text_parameters const> texts,
                               std::span<std::string const> names) {
  auto* c = channel_.native();
  if (PQenterPipelineMode(c) != 1) return false;
  bool good =
      names.empty()
          ? send_text(c, begin_text) &&
                send_text(c,
                          (is_flushed(steps.front().what.sql) ? local_settings_ : local_unflushed_).c_str())
          : send_prepared(c, names.front(), nullptr);
  for (std::size_t i = 0; good && i < steps.size(); ++i)
    good = names.empty() ? PQsendQueryParams(c, steps[i].what.sql.c_str(), texts[i].count(), nullptr,
                                             texts[i].data(), nullptr, nullptr, 0) == 1
                         : send_prepared(c, names[i + 1], &texts[i]);
  return good && (names.empty() ? send_text(c, "COMMIT") : send_prepared(c, names.back(), nullptr)) &&
         PQpipelineSync(c) == 1;
}

std::vector<native_result> session::run_transaction(std::span<step const> steps, boot_time_point deadline) {
  auto* c = channel_.native();
  std::vector<text_parameters> texts;
  texts.reserve(steps.size());
  for (auto const& one : steps) texts.emplace_back(one.parameters, one.what.name);
  auto const names = names_of(steps, deadline);
  auto const& whole = steps.front().what.name;
  if (boot_clock::now() >= deadline) give_up(stake::nothing, whole, "no time was left to send it");
  if (!send_transaction(steps, texts, names)) give_up(stake::statement, whole, channel_.error_message());
  auto r = channel_.collect_pipelined(deadline);
  if (r.how != reply::outcome::complete) give_up(stake::statement, whole, r.message);
  if (PQexitPipelineMode(c) != 1) give_up(stake::statement, whole, channel_.error_message());
  std::size_t const before = names.empty() ? 2 : 1;
  for (std::size_t i = 0; i < r.results.size(); ++i) {
    if (!failed(r.results[i].get())) continue;
    auto const which = i < before ? 0 : std::min(i - before, steps.size() - 1);
    try {
      refuse(r.results[i].get(), steps[which].what.name, stake::statement);
    } catch (error const&) {
      if (usable() && PQtransactionStatus(c) != PQTRANS_IDLE) roll_back();
      throw;
    }
  }
  if (r.results.size() != before + steps.size() + 1 ||
      PQcmdStatus(r.results.back().get()) != std::string_view("COMMIT"))
    give_up(stake::statement, whole, "COMMIT was not answered as such");
  if (r.only_local) give_up(stake::statement, whole, only_local_text);
  std::vector<native_result> of_steps;
  for (std::size_t i = 0; i < steps.size(); ++i) of_steps.push_back(std::move(r.results[before + i]));
  return of_steps;
}

/// Runs a transaction of its own, unless one is open.
native_result session::run_pooled(statement const& s, std::span<value const> parameters,
                                  boot_time_point deadline) {
  auto* c = channel_.native();
  if (PQtransactionStatus(c) == PQTRANS_IDLE) {
    step const only{s, parameters};
    return std::move(run_transaction(std::span(&only, 1), deadline).front());
  }
  text_parameters const texts(parameters, s.name);
  bool const sent =
      PQsendQueryParams(c, s.sql.c_str(), texts.count(), nullptr, texts.data(), nullptr, nullptr, 0) == 1;
  auto results = finish(sent, s.name, stake::statement, deadline);
  return results.empty() ? nullptr : std::move(results.back());
}

std::vector<result> session::execute_at_once(std::span<step const> steps, boot_time_point deadline) {
  begin(steps.front().what.name, deadline);
  set_flushed(is_flushed(steps.front().what.sql), deadline);
  auto const run = [&] {
    std::vector<result> out;
    for (auto const& one : run_transaction(steps, deadline)) out.push_back(decode(one.get()));
    return out;
  };
  try {
    return run();
  } catch (error const& e) {
    if (!is_forgotten(e.sqlstate())) throw;
    prepared_.clear();  // as in execute(), but any of the statements
  }
  return run();
}

void session::execute_each(std::span<step const> steps, boot_time_point deadline) {
  auto const one_by_one = [&] { connection::execute_each(steps, deadline); };
  auto* c = channel_.native();
  if (steps.size() < 2 || pooling_ == pooling::transaction) return one_by_one();
  auto const& first = steps.front().what;
  begin(first.name, deadline);
  set_flushed(is_flushed(first.sql), deadline);
  std::vector<std::string> names;
  for (auto const& one : steps) names.push_back(prepare(one.what, deadline).server_name);
  if (boot_clock::now() >= deadline) give_up(stake::nothing, first.name, "no time was left to send it");
  bool sent = PQenterPipelineMode(c) == 1;
  for (std::size_t i = 0; sent && i < steps.size(); ++i) {
    text_parameters const texts(steps[i].parameters, steps[i].what.name);
    sent = send_prepared(c, names[i], &texts) && PQpipelineSync(c) == 1;
  }
  if (!sent) give_up(stake::statement, first.name, channel_.error_message());
  native_result problem;
  for (auto const& one : steps) {
    auto r = channel_.collect_pipelined(deadline);
    if (r.how != reply::outcome::complete) give_up(stake::statement, one.what.name, r.message);
    if (r.only_local) give_up(stake::statement, one.what.name, only_local_text);
    for (auto& result : r.results)
      if (!problem && failed(result.get())) problem = std::move(result);
  }
  if (PQexitPipelineMode(c) != 1) give_up(stake::statement, first.name, channel_.error_message());
  if (!problem) return;
  if (!is_forgotten(problem.get())) refuse(problem.get(), first.name, stake::statement);
  prepared_.clear();
  one_by_one();
}

}  // namespace rowlock::backend::postgresql

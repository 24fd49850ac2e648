#include "strategy/quorum_member.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "strategy/counts.hpp"

namespace rowlock::strategies {

using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

namespace {

value null_if_empty(std::string const& text) { return text.empty() ? value(nullptr) : value(text); }

// The ids are random hexadecimal digits.
std::string joined_ids(std::vector<std::string> const& members) {
  return fmt::format("{}", fmt::join(members, " "));
}

std::vector<std::string> divided_ids(std::string const& text) {
  std::vector<std::string> all;
  std::size_t from = 0;
  while (from < text.size()) {
    auto const end = std::min(text.find(' ', from), text.size());
    if (end > from) all.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return all;
}

}  // namespace

lease::claiming quorum_member::claim_of(take_request const& r, std::optional<superseded> const& old,
                                        bool) const {
  auto parameters = granting_parameters(r, rowlock::strategy::quorum);
  parameters.push_back(r.vote.token ? value(*r.vote.token) : value(nullptr));
  parameters.push_back(old ? value(old->term.value) : value(nullptr));
  parameters.emplace_back(r.vote.epoch_id);
  parameters.push_back(old && old->renewals ? value(*old->renewals) : value(nullptr));
  parameters.push_back(null_if_empty(r.vote.former));
  parameters.emplace_back(old ? old->incarnation : std::int64_t{0});
  return {"quorum_take", std::move(parameters)};
}

// A database that does not vote is not busy, so a refusal without a holder is looked at again. So is a row
// that `at_least` has left without an owner: it would hide the new epoch for ever.
outcome quorum_member::take(backend::connection& c, take_request const& r,
                            std::optional<superseded> const& old, boot_time_point deadline,
                            boot_time_point& sent_at) const {
  auto came = lease::take(c, r, old, deadline, sent_at);
  auto* const why_not = std::get_if<refused>(&came);
  if (why_not == nullptr || (why_not->row && !why_not->row->takeable() && !old)) return came;
  auto const its = read(c, book_, false, deadline).record;
  if (its.votes && its.epoch_id == r.vote.epoch_id) {
    // After a revocation the row is free, but not for its former owner: another try would fail, too.
    if (!r.vote.former.empty()) why_not->by_nobody = false;
    return came;
  }
  throw error(
      errc::not_voting,
      its.quorum_id.empty()
          ? fmt::format("'{}': this database belongs to no quorum", r.name)
          : fmt::format("'{}': this database does not vote in the epoch that is asked for: it {} {}", r.name,
                        its.votes ? "votes in epoch" : "does not vote yet, in epoch", its.epoch));
}

bool quorum_member::confirm(backend::connection& c, backend::statement_book const& book,
                            name_and_term const& which, fencing_token token, std::string const& epoch_id,
                            std::chrono::milliseconds lasts, boot_time_point deadline) {
  std::vector<value> const parameters{which.name, which.term.value, token.value, epoch_id,
                                      std::int64_t{lasts.count()}};
  return c.execute(book.at("quorum_confirm"), parameters, deadline).affected > 0;
}

member_state quorum_member::read(backend::connection& c, backend::statement_book const& book,
                                 bool with_highest, boot_time_point deadline) {
  auto const found =
      c.execute(book.at("quorum_read"), std::vector<value>{std::int64_t{with_highest}}, deadline).rows;
  if (found.empty())
    throw error(errc::schema_missing,
                "table rowlock_meta has no row: `rowlock migrate validate` tells what is wrong");
  auto const& columns = found.front();
  member_state s;
  if (!is_null(columns.at(0)) && !is_null(columns.at(2)))
    s.record = {as_text(columns.at(0)),
                as_count(columns.at(1)),
                as_text(columns.at(2)),
                divided_ids(as_text(columns.at(3))),
                backend::as_duration(columns.at(4)),
                as_int(columns.at(5)) != 0};
  s.database_id = as_text(columns.at(6));
  s.clock = backend::as_time(columns.at(7));
  s.highest.value = as_int(columns.at(8));
  return s;
}

bool quorum_member::write(backend::connection& c, backend::statement_book const& book,
                          std::string const& former, member_record const& r, boot_time_point deadline) {
  c.execute(book.at("quorum_make_row"), {}, deadline);
  std::vector<value> const parameters{
      null_if_empty(former),     null_if_empty(r.quorum_id), r.epoch,
      null_if_empty(r.epoch_id), joined_ids(r.members),      std::int64_t{r.max_ttl.count()},
      std::int64_t{r.votes}};
  return c.execute(book.at("quorum_write"), parameters, deadline).affected > 0;
}

void quorum_member::raise_tokens(backend::connection& c, backend::statement_book const& book,
                                 fencing_token highest, boot_time_point deadline) {
  c.execute(book.at("reap_raise_floor"), std::vector<value>{highest.value}, deadline);
  c.execute(book.at("quorum_raise"), std::vector<value>{highest.value}, deadline);
}

}  // namespace rowlock::strategies

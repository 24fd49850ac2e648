// Replies that lack a row or a column, or tell a time or a token that can't be: an error, and never memory
// that is not ours, nor a number that has run over.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "base/way_out.hpp"
#include "hostile/fake_server.hpp"
#include "hostile/fake_session.hpp"
#include "strategy/lease.hpp"
#include "strategy/permits.hpp"
#include "strategy/quorum_member.hpp"
#include "strategy/reaping.hpp"
#include "strategy/row_lock.hpp"
#include "strategy/tokens.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

using backend::value;
using postgresql_says::columns;
using postgresql_says::completed;
using postgresql_says::row;

boot_time_point in_a_while() { return boot_clock::now() + 30s; }

/// What a server answers to one statement, by messages of PostgreSQL's protocol.
struct answer {
  std::string description{};  ///< to Describe
  std::string rows{};         ///< to Execute
  int times = 1;              ///< how often those are said
};

answer with_row(std::vector<std::string> const& cells) {
  return {columns(cells.size()), row(cells) + completed("SELECT 1")};
}

/// The set-up of a session is answered as it should be, and everything else by `wrong`.
void answer_all(peer& p, answer const& wrong) {
  fake_postgresql_session session(p);
  while (session.hear()) {
    bool const executes = session.type() == 'E';
    auto const said = executes ? wrong.rows : session.type() == 'D' ? wrong.description : session.reply();
    for (int i = 0; i < (executes ? wrong.times : 1); ++i)
      if (!p.say(said)) break;
  }
}

/// On a session each, as what goes wrong may end it. @return what is said of it
template <class Call>
std::string error_of(answer const& wrong, Call const& call) {
  fake_server const server([&wrong](peer& p) { answer_all(p, wrong); });
  auto const source =
      source_from_url(fmt::format("postgresql://u:p@127.0.0.1:{}/d?sslmode=disable", server.port()))
          .implementation();
  auto const c = source->connect(in_a_while());
  try {
    call(*c);
    return {};
  } catch (error const& e) {
    return e.what();
  }
}

template <class Call>
void expect_error(answer const& wrong, Call const& call) {
  CHECK_FALSE(error_of(wrong, call).empty());
}

/// A session whose server says always the same.
class lying_connection final : public backend::connection {
 public:
  explicit lying_connection(backend::row always) {
    says_.rows.push_back(std::move(always));
    says_.affected = 1;
  }

  backend::result execute(backend::statement const&, std::span<value const>, boot_time_point) override {
    return says_;
  }
  std::vector<backend::result> execute_at_once(std::span<backend::step const> steps,
                                               boot_time_point) override {
    return std::vector<backend::result>(steps.size(), says_);
  }
  void script(std::string_view, boot_time_point) override {}
  backend::result wait_for_row(backend::statement const&, std::span<value const>, boot_time_point,
                               std::chrono::nanoseconds, std::stop_token) override {
    return says_;
  }
  bool usable() const noexcept override { return true; }
  std::string const& server_identity() const noexcept override { return identity_; }
  void close() noexcept override {}

 private:
  backend::result says_;
  std::string identity_ = "liar";
};

backend::statement_book const& statements() {
  static auto const source = source_from_url("postgresql://u:p@127.0.0.1:1/d").implementation();
  static backend::statement_book const book(source->sql(), {});
  return book;
}

constexpr auto greatest = std::numeric_limits<std::int64_t>::max();
constexpr auto least = std::numeric_limits<std::int64_t>::min();

}  // namespace

TEST_CASE("C14: postgresql: a reply that lacks rows or columns is an error, and no crash") {
  backend::statement const any{"any", "SELECT 1"};
  auto const leave = [](backend::connection& c) { c.leave_queue(in_a_while()); };
  auto const wait = [&](backend::connection& c) {
    c.wait_for_row(any, {}, in_a_while(), 30s, {}).rows.front().at(0);
  };
  auto const find = [](backend::connection& c) { c.find_schema("rowlock_locks", true, in_a_while()); };
  for (auto const& wrong : {answer{}, answer{columns(0), completed("SELECT 0")},
                            answer{columns(1), completed("SELECT 0")}, with_row({}), with_row({"t"})}) {
    CAPTURE(wrong.description.size());
    CAPTURE(wrong.rows.size());
    expect_error(wrong, leave);
    if (wrong.rows != with_row({"t"}).rows) expect_error(wrong, wait);
  }
  expect_error(with_row({}), find);
}

TEST_CASE("C14: what a reply lacks is an error of rowlock's, whichever way it is taken") {
  backend::row_list none;
  backend::row_list const still_none;
  CHECK_THROWS_AS(none.at(0), error);
  CHECK_THROWS_AS(none[0], error);
  CHECK_THROWS_AS(none.front(), error);
  CHECK_THROWS_AS(none.back(), error);
  CHECK_THROWS_AS(still_none[0], error);
  CHECK_THROWS_AS(still_none.back(), error);
  none.push_back({});
  CHECK_THROWS_AS(none[0][0], error);
}

TEST_CASE("C14: times and tokens that none can be are errors") {
  for (auto const far : {greatest, least, greatest / 1000, least / 1000}) {
    CAPTURE(far);
    CHECK_THROWS_AS(backend::as_time(far), error);
    CHECK_THROWS_AS(backend::as_duration(far), error);
  }
  CHECK(backend::as_time(std::int64_t{1}).time_since_epoch() == std::chrono::microseconds(1));
  CHECK(backend::as_duration(std::int64_t{-1}) == std::chrono::milliseconds(-1));
  CHECK(backend::as_token(greatest).value == greatest);
  for (auto const none : {std::int64_t{0}, std::int64_t{-1}, least})
    CHECK_THROWS_AS(backend::as_token(none), error);
}

TEST_CASE("C14: who holds a row_lock since a time that can't be is told by an error") {
  lying_connection c(backend::row{std::string("n"), std::string("h"), std::int64_t{1}, greatest, nullptr});
  CHECK_THROWS_AS(strategies::row_lock(statements()).holders(c, {"n", "n"}, in_a_while()), error);
  lying_connection short_row(backend::row{std::string("n"), std::string("h")});
  CHECK_THROWS_AS(strategies::row_lock(statements()).holders(short_row, {"n", "n"}, in_a_while()), error);
}

TEST_CASE("C14: a reaper and a member of a quorum are told no times that can't be") {
  lying_connection reaped(
      backend::row{greatest, std::int64_t{0}, std::string("h"), std::int64_t{1}, std::string("{}")});
  CHECK_THROWS_AS(strategies::reaping(statements(), 1min).last(reaped, in_a_while()), error);
  auto const member = [](std::int64_t max_ttl, std::int64_t clock) {
    lying_connection c(backend::row{std::string("q"), std::int64_t{1}, std::string("e"), std::string("a b c"),
                                    max_ttl, std::int64_t{1}, std::string("a"), clock, std::int64_t{1}});
    return strategies::quorum_member::read(c, statements(), true, in_a_while());
  };
  CHECK_THROWS_AS(member(greatest, 1), error);
  CHECK_THROWS_AS(member(1, least), error);
  CHECK(member(1, 1).highest.value == 1);
}

TEST_CASE("C14: counts that can't be are errors, and are not added up") {
  for (auto const told : {greatest, least, std::int64_t{-1}}) {
    CAPTURE(told);
    strategies::permits const permits(statements(), strategy::semaphore);
    lying_connection units(
        backend::row{std::string("semaphore"), nullptr, told, std::int64_t{0}, std::int64_t{0}});
    CHECK_THROWS_AS(permits.free_units(units, "n", 3, in_a_while()), error);
    lying_connection limit(
        backend::row{std::string("semaphore"), told, std::int64_t{0}, std::int64_t{0}, std::int64_t{0}});
    CHECK_THROWS_AS(permits.free_units(limit, "n", {}, in_a_while()), error);
    lying_connection page(backend::row{told, std::string("n"), std::int64_t{0}, std::int64_t{1}});
    CHECK_THROWS_AS(strategies::reaping(statements(), 1min)
                        .look(page, {strategies::reaped_table::tokens, "", 1}, in_a_while()),
                    error);
    lying_connection epoch(backend::row{std::string("q"), told, std::string("e"), std::string("a b c"),
                                        std::int64_t{1}, std::int64_t{1}, std::string("a"), std::int64_t{1},
                                        std::int64_t{1}});
    CHECK_THROWS_AS(strategies::quorum_member::read(epoch, statements(), true, in_a_while()), error);
  }
}

TEST_CASE("C14: a token below one is not granted") {
  for (auto const told : {std::int64_t{0}, least}) {
    lying_connection c(backend::row{told});
    CHECK_THROWS_AS(strategies::tokens(statements()).draw(c, "n", in_a_while()), error);
    strategies::take_request want;
    want.name = "n";
    boot_time_point sent_at;
    CHECK_THROWS_AS(strategies::lease(statements()).take(c, want, std::nullopt, in_a_while(), sent_at),
                    error);
  }
}

TEST_CASE("C14: postgresql: who waits in the server is sent no more than any reply may have") {
  backend::statement const any{"any", "SELECT 1"};
  auto const flood = [] {
    auto endless = with_row({std::string(1 << 20, 'x')});
    endless.rows = row({std::string(1 << 20, 'x')});
    endless.times = 200;
    return endless;
  }();
  auto const wait = [&](backend::connection& c) { c.wait_for_row(any, {}, in_a_while(), 30s, {}); };
  auto const stand = [](backend::connection& c) { c.enter_queue({}, "n", "who", in_a_while(), 30s, {}); };
  CHECK(error_of(flood, wait).find("longer than any that is expected") != std::string::npos);
  CHECK(error_of(flood, stand).find("longer than any that is expected") != std::string::npos);
  CHECK(base::way_out_of(error_of(flood, stand)));  // [C91]
}

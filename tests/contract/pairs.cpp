// Every strategy on every back end either runs the whole suite or says in words why it does not exist.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct cell {
  rowlock::strategy strategy;
  std::string_view backend;
  char const* gap;  ///< null: the suite runs for it
};

template <class Row>
constexpr cell cell_of{Row::how, Row::database::backend, nullptr};
template <strategy How, char const* Why, class Database>
constexpr cell cell_of<missing<How, Why, Database>>{How, Database::backend, Why};

template <class... Rows>
constexpr std::array<cell, sizeof...(Rows)> cells_of(std::tuple<Rows...> const*) {
  return {cell_of<Rows>...};
}
constexpr auto cells = cells_of(static_cast<table const*>(nullptr));

template <class... Pairs>
std::tuple<typename Pairs::database...> databases_of(std::tuple<Pairs...> const&);
/// Each that there is: a lease can be had everywhere.
using databases = decltype(databases_of(std::declval<pairs_where<leases> const&>()));

void check(fixture& f, cell const& c) {
  CAPTURE(to_string(c.strategy));
  f.options.strategy = c.strategy;
  auto const m = f.manager();
  if (c.gap == nullptr) {
    CHECK(m->make_mutex("x").try_acquire());
    return;
  }
  try {
    (void)m->make_mutex("x").try_acquire();
    FAIL("the gap is not there: run the suite for it");
  } catch (error const& e) {
    CHECK(e.reason() == errc::unsupported);
    CHECK(std::string(e.what()).find(c.gap) != std::string::npos);
    CHECK(std::string(e.what()).find("lease") != std::string::npos);
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("each strategy works on each back end or declares its gap", Database, gaps) {
  std::multiset<strategy> seen;
  for (auto const& c : cells) {
    if (c.backend != Database::backend || traits(c.strategy).counted) continue;  // see the table
    Database f;
    check(f, c);
    seen.insert(c.strategy);
  }
  CHECK(seen == std::multiset{strategy::lease, strategy::unique_insert, strategy::row_lock, strategy::once});
  auto const counted =
      std::count_if(cells.begin(), cells.end(), [](cell const& c) { return traits(c.strategy).counted; });
  CHECK(cells.size() - static_cast<std::size_t>(counted) == 4 * std::tuple_size_v<databases>);
}
TEST_CASE_TEMPLATE_APPLY(gaps, databases);

// The suite itself runs for the pair: a case of this name for each.
EVERY_CASE("the pair is in the table, without a gap") {
  auto const is_this = [&](cell const& c) {
    return c.strategy == pair.strategy && c.backend == pair.backend && c.gap == nullptr;
  };
  CHECK(std::count_if(cells.begin(), cells.end(), is_this) == 1);
  // And what the table says of it is so.
  CHECK((pair.what == term::session) == traits(pair.strategy).owns_session);
  CHECK(f.options.strategy == pair.strategy);
  CHECK(dialect_of(f) == pair.engine);
}

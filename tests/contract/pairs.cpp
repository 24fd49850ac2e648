// Every strategy on every back end either runs the whole suite or says in words why it does not exist.
#include <fmt/format.h>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct cell {
  strategy how;
  char const* backend;
  char const* gap;  ///< null: the suite runs for it
};

constexpr cell table[] = {
    {strategy::lease, "sqlite", nullptr},
    {strategy::lease, "postgresql", nullptr},
    {strategy::unique_insert, "sqlite", "not built yet"},
    {strategy::unique_insert, "postgresql", "not built yet"},
    {strategy::row_lock, "sqlite", "not built yet"},
    {strategy::row_lock, "postgresql", "not built yet"},
};

template <class Pair>
void check_cell(int& seen) {
  for (auto const& c : table) {
    if (std::string_view(c.backend) != Pair::backend) continue;
    CAPTURE(to_string(c.how));
    Pair f;
    auto const m = f.manager();
    mutex_options o;
    o.how = c.how;
    if (c.gap == nullptr) {
      CHECK(c.how == Pair::how);
      CHECK(m->make_mutex("x", o).try_acquire());
    } else {
      try {
        (void)m->make_mutex("x", o);
        FAIL("the gap is not there: run the suite for it");
      } catch (error const& e) {
        CHECK(e.reason() == errc::unsupported);
        CHECK(std::string(e.what()).find(c.gap) != std::string::npos);
        CHECK(std::string(e.what()).find("lease") != std::string::npos);
      }
    }
    ++seen;
  }
}

}  // namespace

TEST_CASE("each pair of strategy and back end runs the suite or declares its gap") {
  int seen = 0;
  check_cell<lease_on_sqlite>(seen);
  check_cell<lease_on_postgresql>(seen);
  CHECK(seen == std::size(table));
  CHECK(seen == 3 * 2);
}

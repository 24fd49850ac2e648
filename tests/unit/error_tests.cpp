#include <doctest/doctest.h>

#include <rowlock/error.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/mutex.hpp>
#include <type_traits>
#include <utility>

using namespace rowlock;

// An exception's copy that throws ends the program.
static_assert(std::is_nothrow_copy_constructible_v<error> && std::is_nothrow_copy_assignable_v<error>);
static_assert(std::is_nothrow_move_constructible_v<error> && std::is_nothrow_move_assignable_v<error>);
static_assert(std::is_nothrow_move_constructible_v<mutex> && std::is_nothrow_move_assignable_v<mutex>);
static_assert(std::is_nothrow_move_assignable_v<recursive_mutex> && !std::is_copy_assignable_v<mutex>);
static_assert(std::is_nothrow_move_assignable_v<acquisition> && !std::is_copy_constructible_v<acquisition>);

TEST_CASE("an error is as it was after it was copied, moved from and assigned") {
  error const first(errc::conflict, "text", "lock_take", "40P01", 7);
  error copy(first);
  error const moved(std::move(copy));
  error assigned(errc::failed, "other");
  assigned = moved;
  for (error const* e : std::initializer_list<error const*>{&first, &copy, &moved, &assigned}) {
    CHECK(e->reason() == errc::conflict);
    CHECK(e->statement() == "lock_take");
    CHECK(e->sqlstate() == "40P01");
    CHECK(e->native_code() == 7);
    CHECK(std::string(e->what()) == first.what());
  }
  error const plain(errc::failed, "other");
  CHECK(plain.statement().empty());
  CHECK(plain.sqlstate().empty());
  CHECK(plain.native_code() == 0);
}

TEST_CASE("an acquisition without a lock says why, and never that it has one") {
  try {
    acquisition const wrong(acquire_status::acquired, std::nullopt);
    FAIL("it was made");
  } catch (error const& e) {
    CHECK(e.reason() == errc::invalid_argument);
  }
  holder_info holder;
  holder.owner.host = "elsewhere";
  holder.owner.pid = 42;
  acquisition busy(acquire_status::busy, holder);
  try {
    (void)busy.value();
    FAIL("it had a lock");
  } catch (error const& e) {
    CHECK(e.reason() == errc::not_acquired);
    CHECK(e.retryable());
    for (std::string const part : {"busy", "42", "elsewhere"})
      CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
  acquisition const taken(std::move(busy));
  CHECK(taken.status() == acquire_status::busy);
  CHECK_FALSE(busy);  // NOLINT(bugprone-use-after-move): what it says is promised
  CHECK(busy.status() == acquire_status::cancelled);
  CHECK_FALSE(busy.holder());
}

// Cases that end badly, for the tests of what main() makes of them.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

TEST_CASE("passes") { CHECK(true); }
TEST_CASE("fails") { CHECK(1 == 2); }
TEST_CASE("asserts nothing") {}
TEST_CASE("crashes") { ::raise(SIGTERM); }  // which dumps no core
TEST_CASE("is killed") { ::raise(SIGKILL); }
TEST_CASE("leaves") { ::_exit(0); }
TEST_CASE("hangs") {
  ::alarm(1);  // of main()'s watchdog
  ::sleep(60);
}
TEST_CASE("is alone" * doctest::description("alone")) { CHECK(true); }
TEST_CASE("passes, too") { CHECK(true); }

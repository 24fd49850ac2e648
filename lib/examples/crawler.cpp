// Fetches pages of a site, beside other processes that do the same on any host, but never more than LIMIT of
// them at a time: the site's owner has asked for that.
//
//   crawler URL SITE LIMIT PAGE...
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

void fetch(std::string const& page) {
  std::printf("begins %s\n", page.c_str());
  std::fflush(stdout);
  std::this_thread::sleep_for(20ms);  // the work
  std::printf("ends %s\n", page.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) return 64;
  rowlock::lock_manager manager{argv[1]};
  auto crawlers =
      manager.make_semaphore(std::string("crawlers of ") + argv[2], std::atoll(argv[3]), {.ttl = 10s});

  for (int i = 4; i < argc; ++i) {
    // For each page anew, so that the other crawlers get their turns. A crawler that dies is not counted any
    // more 10 s later.
    auto const one = crawlers.try_acquire_for(1min);
    if (!one) {
      std::fprintf(stderr, "%s is busy: %s\n", argv[2], to_string(one.status()));
      return 75;
    }
    fetch(argv[i]);
  }
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "crawler: %s\n", e.what());
  return 1;
}

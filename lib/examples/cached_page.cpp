// Shows a page that takes long to make, out of a cache that many processes share. When it is too old, one of
// them makes it again. The other processes show the old page meanwhile. If there is none, they wait for the
// new one, rather than making it all at the same time:
//
//   cached_page URL FILE SECONDS           cached_page postgresql:///shop /var/cache/shop/front.html 60
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <rowlock/rowlock.hpp>
#include <sstream>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string content_of(fs::path const& file) {
  std::ostringstream content;
  content << std::ifstream(file).rdbuf();
  return content.str();
}

bool is_fresh(fs::path const& file, std::chrono::seconds longest) {
  std::error_code absent;
  auto const written = fs::last_write_time(file, absent);
  return !absent && fs::file_time_type::clock::now() - written < longest;
}

/// Slowly. Readers see the old page or the new one, and nothing in between.
void make(fs::path const& file) {
  std::this_thread::sleep_for(500ms);
  auto const fresh = file.string() + ".new";
  std::ofstream(fresh) << "the page\n";
  fs::rename(fresh, file);
}

std::string page(rowlock::mutex& making, fs::path const& file, std::chrono::seconds longest) {
  for (;;) {
    if (is_fresh(file, longest)) return content_of(file);
    if (auto const mine = making.try_acquire()) {
      if (is_fresh(file, longest)) continue;  // another process has just made it
      make(file);
      std::puts("made");
      return content_of(file);
    }
    if (fs::exists(file)) return content_of(file);  // too old, but better than waiting
    if (!making.wait_until_free_for(30s)) throw std::runtime_error("it takes too long");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) return 64;
  rowlock::lock_manager manager{argv[1]};
  auto making = manager.make_mutex(std::string("making ") + argv[2], {.ttl = 10s});
  std::cout << page(making, argv[2], std::chrono::seconds(std::stol(argv[3])));
  return 0;
} catch (std::exception const& e) {
  std::cerr << "cached_page: " << e.what() << '\n';
  return 1;
}

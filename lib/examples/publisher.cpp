// Publishes a file in a folder that many hosts see, such as a bucket that is mounted. One of them does it at
// a time, although no single database may be trusted to stay: two of three databases grant the lock. The
// protected store is in none of them. So the token goes along, and a publisher that was paused is refused.
//
//   publisher URL URL URL FOLDER TEXT
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// What a store that knows fencing tokens does by itself ("only if the token is not lower"). Here it is the
/// name of the file: the one with the highest token is what is published.
void publish(fs::path const& folder, rowlock::fencing_token token, std::string const& text) {
  auto const name = std::to_string(token.value);
  for (auto const& other : fs::directory_iterator(folder))
    if (std::stoll(other.path().filename().string()) > token.value)
      throw std::runtime_error("a later publisher was here: token " + other.path().filename().string());
  std::ofstream out(folder / name);
  out << text << '\n';
  if (!out.flush()) throw std::runtime_error((folder / name).string() + " can't be written");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 6) return 64;
  std::vector<std::unique_ptr<rowlock::lock_manager>> managers;
  std::vector<rowlock::lock_manager*> members;
  for (int i = 1; i <= 3; ++i) {
    managers.push_back(std::make_unique<rowlock::lock_manager>(argv[i]));
    members.push_back(managers.back().get());
  }
  rowlock::quorum quorum{members};  // made once, by `rowlock quorum init`
  auto publishing = quorum.make_mutex("publish", {.ttl = 10s});

  auto const lock = publishing.try_acquire_for(1min);
  if (!lock) {
    std::cerr << "publisher: another process publishes: " << to_string(lock.status()) << '\n';
    return 75;
  }
  publish(argv[4], lock->token(), argv[5]);
  if (!lock->valid()) std::cerr << "publisher: the lock was lost meanwhile; the token has kept the order\n";
  return 0;
} catch (std::exception const& e) {
  std::cerr << "publisher: " << e.what() << '\n';
  return 1;
}

// A configuration of two files that belong together: many programs read it, now and then one writes it, on
// any host that sees the folder. Readers don't wait for each other. No reader gets one file from
// before a change and the other from after it.
//
//   configuration URL FOLDER read          prints what both files say
//   configuration URL FOLDER write TEXT
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <rowlock/rowlock.hpp>
#include <shared_mutex>
#include <string>

namespace {

namespace fs = std::filesystem;

std::string read(fs::path const& file) {
  std::string text;
  std::getline(std::ifstream(file), text);
  return text;
}

/// The whole file or nothing of it, also if this process is killed in the midst of it.
void write(fs::path const& file, std::string const& text) {
  auto const fresh = fs::path(file) += ".new";
  {
    std::ofstream out(fresh);
    out << text << '\n';
    if (!out.flush()) throw std::runtime_error(fresh.string() + " can't be written");
  }
  fs::rename(fresh, file);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return 64;
  fs::path const folder = argv[2];
  std::string const what = argv[3];
  rowlock::lock_manager manager{argv[1]};
  auto configuration = manager.make_shared_mutex("configuration of " + folder.string());

  if (what == "read") {
    std::shared_lock const reading{configuration};  // beside all other readers
    std::cout << read(folder / "hosts") << '\n' << read(folder / "ports") << '\n';
    return 0;
  }
  if (what != "write" || argc != 5) return 64;
  auto const writing = configuration.acquire();  // alone
  write(folder / "hosts", std::string("hosts of ") + argv[4]);
  // A file system does not check whether we may still write. So look: trust ends before another owner may.
  if (!writing.value().valid())
    throw std::runtime_error("the lock was lost: half of it is written. Write again");
  write(folder / "ports", std::string("ports of ") + argv[4]);
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "configuration: %s\n", e.what());
  return 1;
}

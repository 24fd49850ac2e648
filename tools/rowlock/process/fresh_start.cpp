#include "process/fresh_start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace rowlock::tool {
namespace {

std::vector<int> open_files() {
  std::vector<int> open;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    open.push_back(std::atoi(entry.path().filename().c_str()));
  std::erase_if(open, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });  // the folder's own
  return open;
}

/// By its name, which becomes the process's. After an upgrade there is another program at its place.
std::string path_of_this_program() {
  constexpr std::string_view gone = " (deleted)";
  auto path = std::filesystem::read_symlink("/proc/self/exe").string();
  if (path.ends_with(gone)) path.resize(path.size() - gone.size());
  return path;
}

}  // namespace

fresh_start::fresh_start() : handed_off_(open_files()) { ::sigaction(SIGPIPE, nullptr, &pipe_); }

void fresh_start::now(std::vector<std::string> words, signal_setup const& signals,
                      std::string const& variable, std::string const& value) const {
  for (int const fd : open_files())
    if (std::find(handed_off_.begin(), handed_off_.end(), fd) == handed_off_.end())
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv(variable.c_str(), value.c_str(), 1);
  std::fflush(nullptr);
  ::sigaction(SIGPIPE, &pipe_, nullptr);
  signals.restore();
  ::execv(path_of_this_program().c_str(), argv.data());
  ::execv("/proc/self/exe", argv.data());
  throw std::system_error(errno, std::generic_category(), "starting rowlock anew");
}

}  // namespace rowlock::tool

#include "password_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rowlock/types.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "cli.hpp"
#include "exit_status.hpp"
#include "process/descriptor.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_wait = 10s;  // whoever writes may have to ask somebody for it
constexpr std::size_t longest_line = 65'536;

[[noreturn]] void cannot(std::string const& path, std::string const& why) {
  throw failure(exit_usage, fmt::format("no password can be read from the first line of {}: {}", path, why));
}

/// Up to the first line's end, or the pipe's.
std::string first_line(descriptor const& pipe, std::string const& path) {
  auto const deadline = boot_clock::now() + longest_wait;
  std::string line;
  std::array<char, 1024> part{};
  while (line.find('\n') == line.npos) {
    if (line.size() > longest_line) cannot(path, "it is longer than 64 KiB");
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - boot_clock::now());
    if (left <= 0ms) cannot(path, "no process wrote it within 10 s");
    // Of one that nobody has opened for writing yet, too, this is the end of waiting, and not of the pipe.
    pollfd ready{pipe.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    auto const n = ::read(pipe.get(), part.data(), part.size());
    if (n == 0) break;
    if (n > 0)
      line.append(part.data(), static_cast<std::size_t>(n));
    else if (errno != EINTR && errno != EAGAIN)
      cannot(path, std::strerror(errno));
  }
  if (line.empty()) cannot(path, "it is empty");
  return line;
}

descriptor copy_in_memory(std::string const& text) {
  descriptor copy(::memfd_create("rowlock", MFD_CLOEXEC));
  if (!copy || ::write(copy.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw failure(exit_system, fmt::format("cannot keep the password in memory: {}", std::strerror(errno)));
  return copy;
}

}  // namespace

std::string readable_again(std::string const& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return path;
  static std::set<std::string> known_to_be_open;  // a quorum has several members, and all of them one file
  bool const open = S_ISREG(about.st_mode) && (about.st_mode & (S_IROTH | S_IWOTH)) != 0;
  if (open && known_to_be_open.insert(path).second)
    say(fmt::format("every user of this machine may use the password file {} (mode {:o}): chmod o= {}", path,
                    about.st_mode & 07777u, shell_word(path)));
  if (!S_ISFIFO(about.st_mode)) return path;
  static std::map<std::string, descriptor> copies;
  auto const known = copies.find(path);
  if (known != copies.end()) return fmt::format("/proc/self/fd/{}", known->second.get());
  descriptor const pipe(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!pipe) cannot(path, std::strerror(errno));
  auto const& copy = copies[path] = copy_in_memory(first_line(pipe, path));
  return fmt::format("/proc/self/fd/{}", copy.get());
}

}  // namespace rowlock::tool

#include "sockets.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace rowlock::torture {
namespace {

/// The sockets' numbers, as /proc/net/tcp has them.
std::set<std::string> sockets_of(std::vector<pid_t> const& processes) {
  std::set<std::string> numbers;
  std::error_code gone;
  for (auto const pid : processes)
    for (auto const& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
      auto const target = std::filesystem::read_symlink(entry.path(), gone).string();
      constexpr std::string_view begins = "socket:[";
      if (!gone && target.starts_with(begins))
        numbers.insert(target.substr(begins.size(), target.size() - begins.size() - 1));
    }
  return numbers;
}

}  // namespace

std::set<int> ports_of(std::vector<pid_t> const& processes) {
  auto const numbers = sockets_of(processes);
  std::set<int> ports;
  for (auto const* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);  // the columns' names
    while (std::getline(in, line)) {
      // "0: 0100007F:1F90 0100007F:C350 01 ...": the socket's number is the tenth.
      std::istringstream words(line);
      std::string word, local;
      for (int i = 0; i < 10 && words >> word; ++i)
        if (i == 1) local = word;
      if (numbers.contains(word)) ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

}  // namespace rowlock::torture

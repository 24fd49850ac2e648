#include "backend/sqlite/wal_readers.hpp"

#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "backend/sqlite/file_identity.hpp"

namespace rowlock::backend::sqlite {
namespace {

// SQLite's file format, "WAL-Mode Read Lock": bytes 123 to 127 of the index, one for each place.
constexpr unsigned first_place = 123;
constexpr unsigned last_place = 127;

std::string program_of(pid_t process) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), name);
  return name;
}

std::string describe(pid_t process) {
  if (process == ::getpid()) return "this process";
  if (process <= 0) return "a process that the system does not name";
  auto const program = program_of(process);
  return program.empty() ? fmt::format("process {}", process)
                         : fmt::format("process {} ({})", process, program);
}

}  // namespace

std::vector<wal_reader> wal_readers(std::string const& file) {
  std::vector<wal_reader> found;
  auto const index = identify(file + "-shm");
  if (!index) return found;
  auto const ours = fmt::format("{:02x}:{:02x}:{}", ::gnu_dev_major(index->device),
                                ::gnu_dev_minor(index->device), index->inode);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "5: POSIX  ADVISORY  READ 7775 00:1a:88 124 124"; a waiter's line has one word more.
    std::istringstream words(line);
    std::string number;
    std::string kind;
    std::string mode;
    std::string how;
    std::string which;
    wal_reader one{};
    words >> number >> kind >> mode >> how >> one.process >> which >> one.place;
    if (words && how == "READ" && which == ours && one.place >= first_place && one.place <= last_place)
      found.push_back(one);
  }
  return found;
}

std::string to_string(std::vector<wal_reader> const& readers) {
  std::set<pid_t> processes;
  for (auto const& one : readers) processes.insert(one.process);
  std::string all;
  for (auto const one : processes) all += (all.empty() ? "" : " and ") + describe(one);
  return all;
}

}  // namespace rowlock::backend::sqlite

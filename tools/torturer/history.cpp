#include "history.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <rowlock/types.hpp>
#include <stdexcept>
#include <system_error>

namespace rowlock::torture {

char const* to_string(happening h) noexcept {
  switch (h) {
    case happening::asks:
      return "asks";
    case happening::got:
      return "got";
    case happening::got_none:
      return "got none";
    case happening::failed:
      return "failed";
    case happening::trusts:
      return "trusts";
    case happening::lost:
      return "lost";
    case happening::gives_back:
      return "gives back";
    case happening::gave_back:
      return "gave back";
    case happening::fault:
      return "fault";
    case happening::mended:
      return "mended";
    case happening::died:
      return "died";
    case happening::deed:
      return "deed";
    case happening::away:
      return "failed: the database";
  }
  return "?";
}

std::int64_t now() noexcept { return boot_clock::now().time_since_epoch().count(); }

history_writer::history_writer(std::filesystem::path const& file)
    : fd_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), file.string());
}

history_writer::~history_writer() { ::close(fd_); }

void history_writer::write(record r) const {
  if (r.at == 0) r.at = now();
  // 128 bytes at a multiple of 128: never across a page, so a signal does not cut one in two.
  ssize_t n = 0;
  while ((n = ::write(fd_, &r, sizeof r)) < 0 && errno == EINTR) {
  }
  if (n != sizeof r) throw std::system_error(n < 0 ? errno : ENOSPC, std::generic_category(), "the history");
}

namespace {

/// Texts end, and what happened has a name.
bool is_record(record const& r) {
  return r.what <= happening::away && r.term[sizeof r.term - 1] == 0 && r.text[sizeof r.text - 1] == 0;
}

}  // namespace

std::vector<record> read_history(std::filesystem::path const& folder) {
  std::vector<record> all;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".history") continue;
    if (entry.file_size() % sizeof(record) != 0)
      throw std::runtime_error(entry.path().string() + ": a record is cut in two");
    auto const count = entry.file_size() / sizeof(record);
    auto const before = all.size();
    all.resize(before + count);
    std::ifstream in(entry.path(), std::ios::binary);
    in.read(reinterpret_cast<char*>(all.data() + before),
            static_cast<std::streamsize>(count * sizeof(record)));
    if (!in) throw std::runtime_error("can't read " + entry.path().string());
    if (!std::all_of(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(), is_record))
      throw std::runtime_error(entry.path().string() + ": it has something that is no record");
  }
  std::stable_sort(all.begin(), all.end(), [](record const& a, record const& b) { return a.at < b.at; });
  return all;
}

}  // namespace rowlock::torture

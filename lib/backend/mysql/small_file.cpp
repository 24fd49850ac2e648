#include "backend/mysql/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace rowlock::backend::mysql {
namespace {

constexpr off_t longest_file = off_t{1024} * 1024;

class open_file {
 public:
  // O_NONBLOCK does not wait for a pipe.
  explicit open_file(std::string const& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }

  small_file read() const {
    struct stat about {};
    if (fd_ < 0 || ::fstat(fd_, &about) != 0) return {{}, 0, std::generic_category().message(errno)};
    if (!S_ISREG(about.st_mode)) return {{}, 0, "it is no regular file"};
    if (about.st_size > longest_file) return {{}, 0, "it is longer than 1 MiB"};
    std::string all(static_cast<std::size_t>(about.st_size), '\0');
    std::size_t done = 0;
    while (done < all.size()) {
      auto const n = ::read(fd_, all.data() + done, all.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return {{}, 0, std::generic_category().message(errno)};
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    all.resize(done);
    return {std::move(all), about.st_mode, {}};
  }

 private:
  int fd_;
};

}  // namespace

small_file read_small_file(std::string const& path) { return open_file(path).read(); }

}  // namespace rowlock::backend::mysql

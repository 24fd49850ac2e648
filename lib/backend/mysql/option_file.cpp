#include "backend/mysql/option_file.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace rowlock::backend::mysql {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr auto blanks = " \t\r\n\v\f";
  auto const first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string without_escapes(std::string_view text) {
  constexpr std::string_view escaped = "btnrs\\\"'";
  constexpr std::string_view meant = "\b\t\n\r \\\"'";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const which = text[i] == '\\' && i + 1 < text.size() ? escaped.find(text[i + 1]) : escaped.npos;
    if (which == escaped.npos) {
      out += text[i];
    } else {
      out += meant[which];
      ++i;
    }
  }
  return out;
}

/// Where the quote ends that begins the text; npos: nowhere.
std::size_t end_of_quoted(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == text[0])
      return i;
  }
  return text.npos;
}

std::string option_value(std::string_view text) {
  if (text.starts_with('\'') || text.starts_with('"'))
    if (auto const end = end_of_quoted(text); end != text.npos)
      return without_escapes(text.substr(1, end - 1));
  return without_escapes(trimmed(text.substr(0, text.find('#'))));
}

std::string home() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
  if (char const* set = std::getenv("HOME")) return set;
  passwd const* self = ::getpwuid(::geteuid());
  return self == nullptr ? "" : self->pw_dir;
}

/// Such files have a few lines.
constexpr off_t longest_file = off_t{1024} * 1024;

class open_file {
 public:
  // A pipe would be waited for.
  explicit open_file(std::string const& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Nothing of what is no file, is too long, or was perhaps written by somebody else. (The client `mysql`
  /// leaves the last out, too.)
  std::string text() const {
    struct stat about {};
    if (fd_ < 0 || ::fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode) || (about.st_mode & S_IWOTH) != 0 ||
        about.st_size > longest_file)
      return {};
    std::string all(static_cast<std::size_t>(about.st_size), '\0');
    std::size_t done = 0;
    while (done < all.size()) {
      auto const n = ::read(fd_, all.data() + done, all.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return {};
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    all.resize(done);
    return all;
  }

 private:
  int fd_;
};

}  // namespace

std::optional<std::string> password_in(std::istream& option_file) {
  std::optional<std::string> password;
  bool in_group = false;
  for (std::string text; std::getline(option_file, text);) {
    auto const line = trimmed(text);
    if (line.starts_with('[')) {
      auto const end = line.find(']');
      in_group = end != line.npos && trimmed(line.substr(1, end - 1)) == "client";
      continue;
    }
    auto const equals = line.find('=');
    if (in_group && equals != line.npos && trimmed(line.substr(0, equals)) == "password")
      password = option_value(trimmed(line.substr(equals + 1)));
  }
  return password;
}

std::optional<std::string> password_of_option_file() {
  std::istringstream in(open_file(home() + "/.my.cnf").text());
  return password_in(in);
}

}  // namespace rowlock::backend::mysql

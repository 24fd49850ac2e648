#include "commands/waiting_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "holder.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

std::size_t terminal_width() {
  winsize size{};
  bool const known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

waiting_line::waiting_line(std::string const& name)
    : name_(name), wanted_(::isatty(STDERR_FILENO) == 1), rewrites_(false) {
  char const* term = std::getenv("TERM");
  rewrites_ = wanted_ && term != nullptr && std::string_view(term) != "dumb";
}

waiting_line::~waiting_line() {
  if (rewrites_ && !shown_.empty()) std::fputs("\r\x1b[K", stderr);
}

void waiting_line::show(holder_info const* holder) {
  if (!wanted_ || (!rewrites_ && !shown_.empty())) return;
  auto const from = holder == nullptr ? "" : since(*holder);
  auto text = printable(fmt::format("rowlock: waiting for '{}'{}{}", name_,
                                    holder == nullptr ? "" : ", held by " + owner_of(*holder),
                                    from.empty() ? "" : " since " + from));
  // What is wider than the terminal would go on in the next line, which \r does not leave. A cut through a
  // character is not harmful: it is drawn as one that is unknown.
  if (rewrites_) text.resize(std::min(text.size(), terminal_width() - 1));
  if (text == shown_) return;
  shown_ = text;
  std::fputs(rewrites_ ? ("\r\x1b[K" + text).c_str() : (text + "\n").c_str(), stderr);
}

}  // namespace rowlock::tool

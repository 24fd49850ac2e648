#include "top/screen.hpp"

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cwchar>
#include <utility>

#include "exit_status.hpp"
#include "text.hpp"

// Of <term.h>, whose macros are names like "lines".
extern "C" {
int setupterm(char const* term, int fd, int* error);
char* tigetstr(char const* capability);
}

namespace rowlock::tool {
namespace {

using look = screen_line::look;
using kind = key::kind;

attr_t attributes(screen_line const& line, bool colours) {
  attr_t how = line.selected ? A_REVERSE : A_NORMAL;
  if (line.how == look::heading || line.how == look::prompt || line.how == look::alarm) how |= A_BOLD;
  if (colours && line.how == look::warning) how |= static_cast<attr_t>(COLOR_PAIR(1));
  if (colours && line.how == look::alarm) how |= static_cast<attr_t>(COLOR_PAIR(2));
  return how;
}

std::optional<key> special(wint_t code) {
  switch (code) {
    case KEY_UP:
      return key{kind::up};
    case KEY_DOWN:
      return key{kind::down};
    case KEY_PPAGE:
      return key{kind::page_up};
    case KEY_NPAGE:
      return key{kind::page_down};
    case KEY_HOME:
      return key{kind::home};
    case KEY_END:
      return key{kind::end};
    case KEY_ENTER:
      return key{kind::enter};
    case KEY_BACKSPACE:
      return key{kind::backspace};
    default:
      return std::nullopt;
  }
}

}  // namespace

struct screen::terminal {
  SCREEN* curses = nullptr;
  bool colours = false;
};

bool screen::possible() {
  int error = 0;
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) return false;
  if (::setupterm(nullptr, STDOUT_FILENO, &error) != OK) return false;
  return ::tigetstr("cup") != nullptr;
}

screen::screen() : terminal_(std::make_unique<terminal>()) {
  terminal_->curses = ::newterm(nullptr, stdout, stdin);
  if (terminal_->curses == nullptr) throw failure(exit_setup, "the terminal can't be used: see TERM");
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(50);
  ::curs_set(0);
  if (may_colour(STDOUT_FILENO) && ::has_colors()) {
    ::start_color();
    ::use_default_colors();
    ::init_pair(1, COLOR_YELLOW, -1);
    ::init_pair(2, COLOR_RED, -1);
    terminal_->colours = true;
  }
}

screen::~screen() {
  ::endwin();
  ::delscreen(terminal_->curses);
}

void screen::resize() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    ::resizeterm(size.ws_row, size.ws_col);
}

void screen::suspend() { ::endwin(); }

void screen::resume() {
  ::refresh();
  resize();
  ::clearok(stdscr, TRUE);
}

void screen::draw(top_table& table) {
  auto const height = ::getmaxy(stdscr);
  auto const lines = table.screen(static_cast<std::size_t>(std::max(::getmaxx(stdscr), 1)),
                                  static_cast<std::size_t>(std::max(height, 1)));
  ::werase(stdscr);
  for (int y = 0; y < height && y < std::ssize(lines); ++y) {
    auto const& line = lines[static_cast<std::size_t>(y)];
    ::wattrset(stdscr, static_cast<int>(attributes(line, terminal_->colours)));
    ::mvwaddstr(stdscr, y, 0, line.text.c_str());  // what fails is the last column of the last line
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
}

std::optional<key> screen::pressed() {
  constexpr wint_t redraw = 'L' - '@';
  constexpr wint_t escape = 27;
  for (;;) {
    wint_t code = 0;
    auto const what = ::wget_wch(stdscr, &code);
    if (what == ERR) return std::nullopt;
    if (what == KEY_CODE_YES) {
      if (auto k = special(code)) return k;
      continue;
    }
    if (code == redraw) ::clearok(stdscr, TRUE);
    if (code == '\r' || code == '\n') return key{kind::enter};
    if (code == '\b' || code == 127) return key{kind::backspace};
    if (code == escape) return key{kind::escape};
    if (code < ' ') continue;
    std::array<char, 32> bytes{};
    std::mbstate_t state{};
    auto const size = std::wcrtomb(bytes.data(), static_cast<wchar_t>(code), &state);
    if (size != static_cast<std::size_t>(-1)) return key{kind::text, std::string(bytes.data(), size)};
  }
}

}  // namespace rowlock::tool

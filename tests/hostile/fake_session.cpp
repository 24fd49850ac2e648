#include "hostile/fake_session.hpp"

#include <algorithm>
#include <cstring>

namespace rowlock::test {
namespace {

constexpr char com_quit = 1;
constexpr char com_query = 3;

constexpr char com_stmt_prepare = 0x16;
constexpr char com_stmt_execute = 0x17;
constexpr char com_stmt_long_data = 0x18;
constexpr char com_stmt_close = 0x19;

bool begins(std::string const& sql, char const* word) {
  auto const first = sql.find_first_not_of(" \n");
  return first != sql.npos && sql.compare(first, std::strlen(word), word) == 0;
}

/// What one statement of a text gives, from packet `number` on.
std::string reply_to(std::string const& sql, int& number, bool more) {
  if (!begins(sql, "SELECT") && !begins(sql, "SHOW")) return mysql_says::ok(number++, more);
  // Connector/C++ asks for one variable, and a session for its own.
  auto const quote = sql.find('\'');
  auto const name = quote == sql.npos ? "d" : sql.substr(quote + 1, sql.find('\'', quote + 1) - quote - 1);
  int const columns = begins(sql, "SHOW") ? 2 : 1;
  auto out = mysql_says::columns(columns, number);
  number += columns + 2;
  auto row = static_cast<char>(name.size()) + name;
  if (columns == 2)
    row +=
        "\1"
        "0";
  out += mysql_says::packet(number++, row);
  return out + mysql_says::end_of_columns(number++, more);
}

}  // namespace

fake_mysql_session::fake_mysql_session(peer& client) : client_(client) {
  client.say(mysql_says::greeting());
  hear_mysql_packet(client);
  client.say(mysql_says::ok(2));
}

bool fake_mysql_session::hear() {
  auto const all = hear_mysql_packet(client_);
  if (all.empty() || all[0] == com_quit) return false;
  type_ = all[0];
  text_ = all.substr(1);
  return true;
}

// Number 1 has rows of a number, a text and a NULL; number 2 has none.
std::string fake_mysql_session::prepared() const {
  using namespace mysql_says;
  bool const rows = begins(text_, "SELECT");
  auto const marks = static_cast<char>(std::count(text_.begin(), text_.end(), '?'));
  auto const id = rows ? '\1' : '\2';
  auto const many = rows ? '\3' : '\0';
  auto out = packet(1, std::string("\0", 1) + id + std::string("\0\0\0", 3) + many + '\0' + marks +
                           std::string("\0\0\0\0", 4));
  int number = 2;
  for (char i = 0; i < marks; ++i) out += column(number++);
  if (marks > 0) out += end_of_columns(number++);
  for (char i = 0; i < many; ++i) out += column(number++, i == 0 ? '\x08' : '\xfd');
  return rows ? out + end_of_columns(number) : out;
}

std::string fake_mysql_session::executed() const {
  using namespace mysql_says;
  if (text_.empty() || text_[0] != '\1') return ok(1);
  auto const row = std::string("\0\x10\7\0\0\0\0\0\0\0\1x", 12);
  return packet(1, "\3") + column(2, '\x08') + column(3) + column(4) + end_of_columns(5) + packet(6, row) +
         packet(7, row) + end_of_columns(8);
}

std::string fake_mysql_session::reply() const {
  if (type_ == com_stmt_prepare) return prepared();
  if (type_ == com_stmt_execute) return executed();
  if (type_ == com_stmt_close || type_ == com_stmt_long_data) return {};
  if (type_ != com_query) return mysql_says::ok(1);
  std::string out;
  int number = 1;
  for (std::size_t at = 0; at < text_.size();) {
    auto const end = std::min(text_.find(';', at), text_.size());
    out += reply_to(text_.substr(at, end - at), number, end + 1 < text_.size());
    at = end + 1;
  }
  return out;
}

fake_postgresql_session::fake_postgresql_session(peer& client) : client_(client) {
  hear_postgresql_start(client);
  client.say(postgresql_says::logged_in());
}

bool fake_postgresql_session::hear() {
  auto const head = client_.hear(5);
  if (head.size() < 5 || head[0] == 'X') return false;
  type_ = head[0];
  std::size_t size = 0;
  for (std::size_t i = 1; i < 5; ++i) size = size << 8U | static_cast<unsigned char>(head[i]);
  text_ = client_.hear(size - 4);
  return true;
}

std::string fake_postgresql_session::reply() const {
  using namespace postgresql_says;
  switch (type_) {
    case 'Q':  // the set-up, which asks for four columns, and then for the database's name
      return completed("SET") + columns(4) + row({"1", "2", "7", "[]"}) + completed("SELECT 1") + columns(1) +
             row({"x"}) + completed("SELECT 1") + message('Z', "I");
    case 'P':
      return message('1', "");
    case 'B':
      return message('2', "");
    case 'D':
      return columns(1);
    case 'E':
      return row({"x"}) + completed("SELECT 1");
    case 'S':
      return message('Z', "I");
    default:
      return {};
  }
}

}  // namespace rowlock::test

#include "backend/soci/libmariadb.hpp"

#include <charconv>
#include <cstdint>
#include <rowlock/error.hpp>
#include <string_view>
#include <utility>

namespace rowlock::backend::soci {
namespace {

using mysql::refusal;

struct free_result {
  void operator()(MYSQL_RES* r) const noexcept { ::mysql_free_result(r); }
};
using native_result = std::unique_ptr<MYSQL_RES, free_result>;

refusal refusal_of(MYSQL& c) {
  return {static_cast<int>(::mysql_errno(&c)), ::mysql_sqlstate(&c), ::mysql_error(&c)};
}

bool is_integer(enum_field_types type) {
  switch (type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
    case MYSQL_TYPE_YEAR:
      return true;
    default:
      return false;
  }
}

value decode(MYSQL_FIELD const& about, char const* text, std::size_t size) {
  if (text == nullptr) return nullptr;
  if (!is_integer(about.type)) return std::string(text, size);
  std::int64_t number = 0;
  if (std::from_chars(text, text + size, number).ec != std::errc{})
    throw error(errc::failed, "the database returned something else where a number was expected");
  return number;
}

/// Rows of the text protocol.
row_list decode(MYSQL_RES* r, reply_size& so_far) {
  row_list out;
  auto const columns = ::mysql_num_fields(r);
  MYSQL_FIELD const* const about = ::mysql_fetch_fields(r);
  while (MYSQL_ROW const fields = ::mysql_fetch_row(r)) {
    if (!so_far.add_row(columns)) throw mysql::malformed(too_long_reply);
    auto const* const sizes = ::mysql_fetch_lengths(r);
    auto& one = out.emplace_back();
    one.reserve(columns);
    for (unsigned i = 0; i < columns; ++i) one.push_back(decode(about[i], fields[i], sizes[i]));
  }
  return out;
}

void send(MYSQL& c, std::string const& sql) {
  if (::mysql_real_query(&c, sql.data(), sql.size()) != 0) throw refusal_of(c);
}

/// Null if the statement has no rows.
native_result take(MYSQL& c) {
  native_result r(::mysql_store_result(&c));
  if (!r && ::mysql_errno(&c) != 0) throw refusal_of(c);
  return r;
}

result reply_of(MYSQL& c, reply_size& so_far) {
  result out;
  if (native_result const r = take(c))
    out.rows = decode(r.get(), so_far);
  else
    out.affected = static_cast<std::int64_t>(::mysql_affected_rows(&c));
  return out;
}

result run_text(MYSQL& c, std::string const& sql) {
  send(c, sql);
  reply_size size;
  return reply_of(c, size);
}

class borrowed_connection final : public mysql::borrowed_channel {
 public:
  explicit borrowed_connection(MYSQL& c) : native_(c) {}

  // By the last reply's status. An error has none, and can have ended the transaction.
  bool in_transaction() override {
    if (::mysql_errno(&native_) != 0) send(native_, "DO 0");
    return (native_.server_status & SERVER_STATUS_IN_TRANS) != 0 ||
           (native_.server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
  }
  bool is_mariadb() override { return ::mariadb_connection(&native_) != 0; }
  result run(std::string const& sql) override { return run_text(native_, sql); }

 private:
  MYSQL& native_;
};

}  // namespace

std::unique_ptr<mysql::borrowed_channel> borrowed_channel_over(MYSQL& c) {
  return std::make_unique<borrowed_connection>(c);
}

}  // namespace rowlock::backend::soci

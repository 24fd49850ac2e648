#include "backend/soci/libmariadb.hpp"

#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <rowlock/error.hpp>
#include <string_view>
#include <utility>

#include "backend/wire_watch.hpp"

namespace rowlock::backend::soci {
namespace {

using mysql::refusal;

struct free_result {
  void operator()(MYSQL_RES* r) const noexcept { ::mysql_free_result(r); }
};
using native_result = std::unique_ptr<MYSQL_RES, free_result>;

struct close_statement {
  void operator()(MYSQL_STMT* s) const noexcept { ::mysql_stmt_close(s); }
};
using native_statement = std::unique_ptr<MYSQL_STMT, close_statement>;

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

refusal refusal_of_statement(MYSQL_STMT* s) {
  auto const number = static_cast<int>(::mysql_stmt_errno(s));
  return {number, ::mysql_stmt_sqlstate(s), ::mysql_stmt_error(s)};
}

/// For one column of a prepared statement's rows.
struct column {
  bool integer = false;
  std::int64_t number = 0;
  std::vector<char> text;
  unsigned long size = 0;
  my_bool null = 0;

  value get() const {
    if (null != 0) return nullptr;
    if (integer) return number;
    return std::string(text.data(), size);
  }
};

class libmariadb_statement final : public mysql::prepared_statement {
 public:
  libmariadb_statement(MYSQL& c, std::string const& sql) : native_(::mysql_stmt_init(&c)) {
    if (!native_) throw refusal_of(c);
    my_bool const yes = 1;
    // Makes max_length, the room for each column, known once all rows have come.
    ::mysql_stmt_attr_set(native_.get(), STMT_ATTR_UPDATE_MAX_LENGTH, &yes);
    if (::mysql_stmt_prepare(native_.get(), sql.c_str(), sql.size()) != 0)
      throw refusal_of_statement(native_.get());
  }

  void bind(std::span<std::size_t const> order, std::span<value const> values) override {
    parameters_.assign(order.size(), MYSQL_BIND{});
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto const& v = values[order[i]];
      auto& b = parameters_[i];
      // The library only reads from there.
      // NOLINTBEGIN(cppcoreguidelines-pro-type-const-cast)
      if (auto const* number = std::get_if<std::int64_t>(&v)) {
        b.buffer_type = MYSQL_TYPE_LONGLONG;
        b.buffer = const_cast<std::int64_t*>(number);
      } else if (auto const* text = std::get_if<std::string>(&v)) {
        b.buffer_type = MYSQL_TYPE_STRING;
        b.buffer = const_cast<char*>(text->data());
        b.buffer_length = text->size();
      } else {
        b.buffer_type = MYSQL_TYPE_NULL;
      }
      // NOLINTEND(cppcoreguidelines-pro-type-const-cast)
    }
    if (::mysql_stmt_bind_param(native_.get(), parameters_.data()) != 0)
      throw refusal_of_statement(native_.get());
  }

  result run() override {
    auto* const s = native_.get();
    if (::mysql_stmt_execute(s) != 0) throw refusal_of_statement(s);
    result out;
    if (::mysql_stmt_field_count(s) == 0) {
      out.affected = static_cast<std::int64_t>(::mysql_stmt_affected_rows(s));
      out.number = mysql::told_number(::mysql_stmt_insert_id(s));
      return out;
    }
    if (::mysql_stmt_store_result(s) != 0) throw refusal_of_statement(s);
    out.rows = fetch();
    ::mysql_stmt_free_result(s);
    return out;
  }

 private:
  row_list fetch() {
    auto* const s = native_.get();
    native_result const about(::mysql_stmt_result_metadata(s));
    if (!about) throw refusal_of_statement(s);
    auto const count = ::mysql_num_fields(about.get());
    MYSQL_FIELD const* const fields = ::mysql_fetch_fields(about.get());
    std::vector<column> columns(count);
    std::vector<MYSQL_BIND> places(count);
    for (unsigned i = 0; i < count; ++i) {
      auto& c = columns[i];
      // The library does not compare lengths with the bytes that have come. [C67]
      if (fields[i].max_length > most_reply_bytes) throw mysql::malformed(too_long_reply);
      c.integer = is_integer(fields[i].type);
      if (!c.integer) c.text.resize(fields[i].max_length + 1);
      places[i].buffer_type = c.integer ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_STRING;
      places[i].buffer = c.integer ? static_cast<void*>(&c.number) : c.text.data();
      places[i].buffer_length = c.integer ? sizeof c.number : c.text.size();
      places[i].length = &c.size;
      places[i].is_null = &c.null;
    }
    if (::mysql_stmt_bind_result(s, places.data()) != 0) throw refusal_of_statement(s);
    row_list out;
    reply_size size;
    for (;;) {
      int const got = ::mysql_stmt_fetch(s);
      if (got == MYSQL_NO_DATA) return out;
      if (got != 0) throw refusal_of_statement(s);
      if (!size.add_row(count)) throw mysql::malformed(too_long_reply);
      auto& one = out.emplace_back();
      one.reserve(count);
      for (auto const& c : columns) one.push_back(c.get());
    }
  }

  native_statement native_;
  std::vector<MYSQL_BIND> parameters_;
};

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

class libmariadb_channel final : public mysql::channel {
 public:
  explicit libmariadb_channel(MYSQL& c) : native_(c) {}
  ~libmariadb_channel() override { hang_up(native_); }
  libmariadb_channel(libmariadb_channel const&) = delete;
  libmariadb_channel& operator=(libmariadb_channel const&) = delete;

  void enter_thread() override {}  // the library has no state per thread
  bool is_mariadb() override { return ::mariadb_connection(&native_) != 0; }
  bool ping() override { return ::mysql_ping(&native_) == 0; }
  std::unique_ptr<mysql::prepared_statement> prepare(std::string const& sql) override {
    return std::make_unique<libmariadb_statement>(native_, sql);
  }
  result run(std::string const& sql) override { return run_text(native_, sql); }
  std::vector<result> run_all(std::string const& sql) override {
    std::vector<result> out;
    try {
      send(native_, sql);
      reply_size size;
      for (;;) {
        out.push_back(reply_of(native_, size));
        if (!size.add_result()) throw mysql::malformed(too_long_reply);
        int const more = ::mysql_next_result(&native_);
        if (more > 0) throw refusal_of(native_);
        if (more < 0) return out;
      }
    } catch (refusal& e) {
      throw e.after(out.size());
    }
  }

 private:
  MYSQL& native_;
};

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

refusal refusal_of(MYSQL& c) {
  return {static_cast<int>(::mysql_errno(&c)), ::mysql_sqlstate(&c), ::mysql_error(&c)};
}

std::unique_ptr<mysql::borrowed_channel> borrowed_channel_over(MYSQL& c) {
  return std::make_unique<borrowed_connection>(c);
}

std::unique_ptr<mysql::channel> channel_over(MYSQL& c) { return std::make_unique<libmariadb_channel>(c); }

// The beginning of mysql_close(). The rest would free the parameters.
void hang_up(MYSQL& c) noexcept {
  c.options.reconnect = 0;
  if (c.net.pvio == nullptr) return;
  c.methods->db_command(&c, COM_QUIT, nullptr, 0, 1, nullptr);
  if (c.net.pvio != nullptr) ::shutdown(::mysql_get_socket(&c), SHUT_RDWR);
}

}  // namespace rowlock::backend::soci

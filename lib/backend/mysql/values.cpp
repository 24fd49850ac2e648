#include "backend/mysql/values.hpp"

#include <cppconn/datatype.h>
#include <cppconn/resultset_metadata.h>

#include "backend/mysql/channel.hpp"
namespace rowlock::backend::mysql {
namespace {

bool is_integer(int type) {
  switch (type) {
    case sql::DataType::TINYINT:
    case sql::DataType::SMALLINT:
    case sql::DataType::MEDIUMINT:
    case sql::DataType::INTEGER:
    case sql::DataType::BIGINT:
    case sql::DataType::YEAR:
      return true;
    default:
      return false;
  }
}

value field(sql::ResultSet const& rows, unsigned column, bool integer) {
  if (rows.isNull(column)) return nullptr;
  if (integer) return std::int64_t{rows.getInt64(column)};
  return rows.getString(column).asStdString();
}

}  // namespace

void bind(sql::PreparedStatement& native, std::span<std::size_t const> order, std::span<value const> values) {
  unsigned mark = 0;
  for (auto const which : order) {
    ++mark;
    auto const& v = values[which];
    if (auto const* number = std::get_if<std::int64_t>(&v))
      native.setInt64(mark, *number);
    else if (auto const* t = std::get_if<std::string>(&v))
      native.setString(mark, *t);
    else
      native.setNull(mark, sql::DataType::VARCHAR);
  }
}

row_list decode(sql::ResultSet& rows, reply_size& so_far) {
  row_list out;
  auto* const about = rows.getMetaData();
  unsigned const columns = about->getColumnCount();
  std::vector<bool> integer;
  for (unsigned i = 1; i <= columns; ++i) integer.push_back(is_integer(about->getColumnType(i)));
  while (rows.next()) {
    if (!so_far.add_row(columns)) throw malformed(too_long_reply);
    auto& one = out.emplace_back();
    one.reserve(columns);
    for (unsigned i = 1; i <= columns; ++i) one.push_back(field(rows, i, integer[i - 1]));
  }
  return out;
}

}  // namespace rowlock::backend::mysql

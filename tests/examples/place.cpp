#include "examples/place.hpp"

#include <rowlock/postgresql.hpp>

namespace rowlock::test {

void place::script(std::string const& sql) { connect()->script(sql, in(10'000)); }

std::int64_t place::number(std::string const& sql) {
  auto const r = connect()->execute(adhoc(*database_, "look", sql), {}, in(10'000));
  return backend::as_int(r.rows.at(0).at(0));
}

std::string place::url() const {
  if (kind_ != kind::postgresql) return database_->url();
  return conninfo_with({{"options", "-c search_path=" + database_->tables().schema}});
}

std::unique_ptr<backend::connection> place::connect() {
  if (kind_ != kind::postgresql) return database_->connect();
  auto c = postgresql::source(url()).implementation()->connect(in(5000));
  c->script("SET search_path = " + database_->tables().schema,
            in(5000));  // rowlock's own sessions look nowhere
  return c;
}

}  // namespace rowlock::test

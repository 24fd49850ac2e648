#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <string>
#include <utility>

#include "sql_session.hpp"
#include "support/support.hpp"

namespace rowlock::test {

/// A database of a server's, for as long as this exists.
class own_database {
 public:
  explicit own_database(std::string server) : server_(std::move(server)) {
    *torture::connect(server_) << "CREATE DATABASE " << name_;
  }
  own_database(own_database const&) = delete;
  own_database& operator=(own_database const&) = delete;
  ~own_database() {
    try {
      *torture::connect(server_) << "DROP DATABASE " << name_
                                 << (torture::is_mysql(server_) ? "" : " WITH (FORCE)");
    } catch (std::exception const& e) {
      MESSAGE("it is still there: ", std::string(e.what()));
    }
  }
  std::string address() const {
    return torture::is_mysql(server_) ? with_database(server_, name_) : server_ + " dbname=" + name_;
  }

 private:
  std::string server_;
  std::string name_ = unique_identifier();
};

}  // namespace rowlock::test

#include "guard/soci_program.hpp"

#include <soci/soci.h>

#include <rowlock/soci_transaction.hpp>

#include "guard/program.hpp"
#include "support/soci_pool.hpp"

namespace rowlock::test {
namespace {

class soci_program final : public program {
 public:
  explicit soci_program(std::string const& url) {
    open_soci_session(native_, url);
    if (url.starts_with("sqlite")) (void)value("PRAGMA busy_timeout = 10000");  // as in sqlite3_program
  }
  void run(std::string const& sql) override {
    try {
      native_ << sql;
    } catch (::soci::soci_error const& e) {
      throw refused_statement(e.what());
    }
  }
  std::optional<std::string> value(std::string const& sql) override {
    try {
      ::soci::rowset<::soci::row> const rows = (native_.prepare << sql);
      auto const first = rows.begin();
      if (first == rows.end() || first->get_indicator(0) == ::soci::i_null) return std::nullopt;
      switch (first->get_properties(0).get_data_type()) {
        case ::soci::dt_integer:
          return std::to_string(first->get<int>(0));
        case ::soci::dt_long_long:
          return std::to_string(first->get<long long>(0));
        case ::soci::dt_unsigned_long_long:
          return std::to_string(first->get<unsigned long long>(0));
        case ::soci::dt_double:
          return std::to_string(static_cast<long long>(first->get<double>(0)));
        default:
          return first->get<std::string>(0);
      }
    } catch (::soci::soci_error const& e) {
      throw refused_statement(e.what());
    }
  }
  std::shared_ptr<basic_transaction> view(lock_manager& m, transaction_options o) override {
    return std::make_shared<soci::transaction>(m, native_, o);
  }
  void commit() override { soci::execute_commit(native_); }
  void* native() override { return &native_; }

 private:
  ::soci::session native_;
};

}  // namespace

std::unique_ptr<program> connect_by_soci(std::string const& url) {
  return std::make_unique<soci_program>(url);
}

}  // namespace rowlock::test

#include "backend/mysql/source.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <rowlock/mysql.hpp>

#include "backend/mysql/connect.hpp"
#include "backend/mysql/connector.hpp"
#include "backend/mysql/dialect.hpp"
#include "backend/mysql/native.hpp"

namespace rowlock::backend::mysql {
namespace {

class own_source final : public source {
 public:
  explicit own_source(settings s) : settings_(std::move(s)), description_(settings_.describe()) {
    (void)driver();  // its handlers for the process's end must run after its users' [C3]
  }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    return mysql::connect(settings_, description_, deadline);
  }
  dialect const& sql() const noexcept override { return mysql_dialect(); }
  int best_connections() const noexcept override { return 4; }
  std::string describe() const override { return description_; }

 private:
  settings settings_;
  std::string description_;
};

class function_source final : public source {
 public:
  explicit function_source(std::function<::sql::Connection*()> open) : open_(std::move(open)) {
    if (!open_) throw error(errc::invalid_argument, "the function that opens MySQL connections is empty");
    (void)driver();
  }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    return std::make_unique<session>(channel_over(open(), nullptr), nullptr, describe(), deadline);
  }
  dialect const& sql() const noexcept override { return mysql_dialect(); }
  int best_connections() const noexcept override { return 4; }
  std::string describe() const override { return "mysql, connections opened by the program"; }
  bool uses_the_programs() const noexcept override { return true; }

 private:
  native_connection open() const {
    (void)driver();
    try {
      if (native_connection c{open_()}) return c;
    } catch (::sql::SQLException const& e) {
      throw connect_error(as_refusal(e), describe());
    } catch (std::exception const& e) {
      throw error(errc::unreachable,
                  fmt::format("the function that opens MySQL connections threw: {}", e.what()));
    } catch (...) {
      throw error(errc::unreachable, "the function that opens MySQL connections threw");
    }
    throw error(errc::unreachable, "the function that opens MySQL connections returned null");
  }

  std::function<::sql::Connection*()> open_;
};

}  // namespace

std::shared_ptr<source> source_of(settings s) { return std::make_shared<own_source>(std::move(s)); }

}  // namespace rowlock::backend::mysql

namespace rowlock::mysql {

source::source(std::string const& url)
    : connection_source(backend::mysql::source_of(backend::mysql::read_url(url))) {}

source::source(std::function<::sql::Connection*()> open)
    : connection_source(std::make_shared<backend::mysql::function_source>(std::move(open))) {}

}  // namespace rowlock::mysql

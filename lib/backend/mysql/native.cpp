#include "backend/mysql/native.hpp"

#include <cppconn/driver.h>
#include <mysql_driver.h>

#include <mutex>

#include "base/process_end.hpp"

namespace rowlock::backend::mysql {
namespace {

class known_thread {
 public:
  explicit known_thread(sql::Driver& d) : driver_(d) { driver_.threadInit(); }
  // Also in a thread of the program's while another one ends the process.
  ~known_thread() {
    base::driver_call const now;
    driver_.threadEnd();
  }
  known_thread(known_thread const&) = delete;
  known_thread& operator=(known_thread const&) = delete;

 private:
  sql::Driver& driver_;
};

}  // namespace

sql::Driver& driver() {
  // The connector keeps it in a map without a mutex.
  static std::once_flag once;
  static sql::Driver* instance = nullptr;
  std::call_once(once, [] { instance = sql::mysql::get_driver_instance(); });
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wexit-time-destructors"
#endif
  thread_local known_thread const here(*instance);  // destroyed with the thread
#ifdef __clang__
#pragma clang diagnostic pop
#endif
  return *instance;
}

native_connection open(sql::ConnectOptionsMap& options) {
  return native_connection(driver().connect(options));
}

}  // namespace rowlock::backend::mysql

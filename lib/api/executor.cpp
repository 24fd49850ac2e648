#include <rowlock/executor.hpp>

namespace rowlock {

posted& posted::operator=(posted&& other) noexcept {
  posted const former(std::exchange(work_, std::move(other.work_)));
  return *this;
}

posted::~posted() {
  if (!work_) return;
  auto& refused = *work_;
  refused.refuse(std::move(work_));
}

void posted::operator()() {
  auto& mine = *work_;
  mine.run(std::move(work_));
}

}  // namespace rowlock

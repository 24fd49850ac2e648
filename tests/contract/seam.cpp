#include "contract/seam.hpp"

#include <utility>

#include "testing/probe.hpp"

namespace rowlock::test {
namespace {

class seams_probe final : public testing::probe {
 public:
  explicit seams_probe(std::shared_ptr<seam> s) : seam_(std::move(s)) {}
  void opened() override { ++seam_->connections; }
  void closed() override { --seam_->connections; }
  void count(std::string const& step) override { seam_->count(step); }
  void look(std::string const& step, std::span<backend::value const> p) override { seam_->look(step, p); }
  void before(std::string const& step) override { seam_->before(step); }
  void after(std::string const& step) override { seam_->after(step); }
  void reply(std::string const& step, backend::result& r) override { seam_->reply(step, r); }

 private:
  std::shared_ptr<seam> seam_;
};

}  // namespace

void seam::count(std::string const& statement) {
  std::lock_guard const guard(mutex_);
  ++counts_[statement];
}

int seam::executed(std::string const& statement) const {
  std::lock_guard const guard(mutex_);
  auto const found = counts_.find(statement);
  return found == counts_.end() ? 0 : found->second;
}

int seam::executed_in_all() const {
  std::lock_guard const guard(mutex_);
  int all = 0;
  for (auto const& [statement, n] : counts_) all += n;
  return all;
}

void seam::reset() {
  std::lock_guard const guard(mutex_);
  counts_.clear();
}

connection_source observed_by(connection_source source, std::shared_ptr<seam> s) {
  return testing::observed_by(source, std::make_shared<seams_probe>(std::move(s)));
}

}  // namespace rowlock::test

#include "contract/statement_probe.hpp"

#include <utility>

#include "testing/probe.hpp"

namespace rowlock::test {
namespace {

class installed_probe final : public testing::probe {
 public:
  explicit installed_probe(std::shared_ptr<statement_probe> s) : probe_(std::move(s)) {}
  void opened() override { ++probe_->connections; }
  void closed() override { --probe_->connections; }
  void count(std::string const& step) override { probe_->count(step); }
  void look(std::string const& step, std::span<backend::value const> p) override { probe_->look(step, p); }
  void before(std::string const& step) override { probe_->before(step); }
  void after(std::string const& step) override { probe_->after(step); }
  void reply(std::string const& step, backend::result& r) override { probe_->reply(step, r); }

 private:
  std::shared_ptr<statement_probe> probe_;
};

}  // namespace

void statement_probe::count(std::string const& statement) {
  std::lock_guard const guard(mutex_);
  ++counts_[statement];
}

int statement_probe::executed(std::string const& statement) const {
  std::lock_guard const guard(mutex_);
  auto const found = counts_.find(statement);
  return found == counts_.end() ? 0 : found->second;
}

int statement_probe::executed_in_all() const {
  std::lock_guard const guard(mutex_);
  int all = 0;
  for (auto const& [statement, n] : counts_) all += n;
  return all;
}

void statement_probe::reset() {
  std::lock_guard const guard(mutex_);
  counts_.clear();
}

connection_source observed_by(connection_source source, std::shared_ptr<statement_probe> s) {
  return testing::observed_by(source, std::make_shared<installed_probe>(std::move(s)));
}

}  // namespace rowlock::test

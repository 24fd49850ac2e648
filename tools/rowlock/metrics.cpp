#include "metrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/prometheus_text.hpp"
#include "exit_status.hpp"
#include "holder.hpp"

namespace rowlock::tool {
namespace {

using base::prometheus_text;
using json = nlohmann::ordered_json;

constexpr std::string_view last_success_name = "rowlock_reap_last_success_timestamp_seconds";

double seconds(std::chrono::system_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::floor<std::chrono::milliseconds>(t).time_since_epoch())
      .count();
}

void gauge(prometheus_text& out, std::string const& name, std::string_view help) {
  out.metric(name, "gauge", help);
}

/// A number of a run's report, if it has it: another version may have written it.
void add(prometheus_text& out, json const& report, char const* key, prometheus_text::labels labels = {}) {
  auto const found = report.find(key);
  if (found != report.end() && found->is_number_integer()) out.sample(found->get<std::int64_t>(), labels);
}

/// What a run did, as to_json(reap_result) has it. `of`: what the names begin with.
void add_report(prometheus_text& out, std::string const& of, json const& report) {
  gauge(out, of + "_examined_rows", "Rows that the run looked at.");
  add(out, report, "examined");
  gauge(out, of + "_deleted_rows", "Rows that the run deleted: locks by strategy, and latest tokens.");
  if (auto const deleted = report.find("deleted"); deleted != report.end() && deleted->is_object())
    for (auto const* kind : {"unique_insert", "lease", "row_lock", "permits", "permit_names", "tokens"})
      add(out, *deleted, kind, {{"kind", kind}});
  gauge(out, of + "_skipped_rows", "Rows that were due, but in use just then.");
  add(out, report, "skipped");
  gauge(out, of + "_left_rows",
        "Rows that stay: takeover is observed, or their token is far ahead of the clock.");
  add(out, report, "left_observed", {{"reason", "observed"}});
  add(out, report, "left_ahead", {{"reason", "ahead"}});
}

void add_last_reap(prometheus_text& out, std::optional<last_reap> const& last) {
  std::string const of = "rowlock_reaper_last_run";
  gauge(out, of + "_timestamp_seconds",
        "When the last run of the reaper that came to its end did so, by the database's clock; 0: none did.");
  out.sample(last ? seconds(last->finished_at) : 0.0);
  if (!last) return;
  gauge(out, of + "_duration_seconds", "How long that run took.");
  out.sample(std::chrono::duration<double>(last->finished_at - last->started_at).count());
  auto const report = json::parse(last->report, nullptr, false);
  if (!report.is_object()) return;
  gauge(out, of + "_success", "Whether it went through everything, and was not stopped.");
  out.sample(report.value("end", json()) == to_string(reap_end::finished));
  add_report(out, of, report);
}

void add_grants(prometheus_text& out, std::optional<quarantine_state> const& now) {
  if (!now) return;
  auto const in_seconds = [](std::chrono::milliseconds t) {
    return std::chrono::duration<double>(t).count();
  };
  gauge(
      out, "rowlock_grants_in_seconds",
      "Until the database grants locks: it is frozen, or may have forgotten some. 0: it grants. Infinite: it "
      "begins to count with the first process that asks.");
  out.sample(now->left ? in_seconds(*now->left) : std::numeric_limits<double>::infinity());
  gauge(out, "rowlock_frozen_seconds", "How long an operator has frozen the database from now on. 0: not.");
  out.sample(in_seconds(now->frozen));
  gauge(out, "rowlock_quarantine_enabled",
        "Whether the database grants nothing for a time after it may have forgotten locks.");
  out.sample(now->enabled);
}

void add_snapshot(prometheus_text& out, std::optional<old_snapshot> const& oldest) {
  if (!oldest) return;
  if (oldest->age || oldest->whose.empty()) {
    gauge(out, "rowlock_oldest_snapshot_seconds",
          "How old the snapshot is for which dead rows are kept. 0: none.");
    out.sample(oldest->age.value_or(std::chrono::seconds(0)).count());
  }
  gauge(out, "rowlock_oldest_snapshot_transactions",
        "Of how many transactions ago the snapshot is for which dead rows are kept.");
  out.sample(oldest->transactions);
}

/// Removed unless it was moved to its place.
class temporary_file {
 public:
  explicit temporary_file(std::string const& beside) : path_(beside + ".XXXXXX") {
    int const fd = ::mkostemp(path_.data(), O_CLOEXEC);
    if (fd < 0) return;
    made_ = true;
    // As any program's files; mkostemp() makes them for their owner alone, and node_exporter is somebody
    // else.
    auto const mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd, 0644 & ~mask) == 0) file_ = ::fdopen(fd, "w");
    if (file_ == nullptr) ::close(fd);
  }
  ~temporary_file() {
    if (file_ != nullptr) std::fclose(file_);
    if (made_) ::unlink(path_.c_str());
  }
  temporary_file(temporary_file const&) = delete;
  temporary_file& operator=(temporary_file const&) = delete;

  /// @return false, and errno says why, if it could not be done
  bool write(std::string const& text) {
    if (file_ == nullptr || std::fwrite(text.data(), 1, text.size(), file_) != text.size()) return false;
    return std::fclose(std::exchange(file_, nullptr)) == 0;
  }
  bool move_to(std::string const& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) return false;
    made_ = false;
    return true;
  }

 private:
  std::string path_;
  bool made_ = false;
  std::FILE* file_ = nullptr;
};

}  // namespace

lock_counts::lock_counts(bool idle_too) {
  for (auto const how : {strategy::lease, strategy::unique_insert, strategy::row_lock, strategy::once,
                         strategy::shared, strategy::semaphore}) {
    auto& of_strategy = count_[to_string(how)];
    of_strategy = {{"held", 0}, {"revoked", 0}, {"expired", 0}};
    if (idle_too) of_strategy.emplace("idle", 0);
  }
  count_["unknown"]["unknown"] = 0;
}

void lock_counts::add(lock_info const& lock) {
  std::string const state = state_of(lock);
  if (!lock.unknown.empty()) {
    ++count_["unknown"][state];
    return;
  }
  auto const* how = to_string(lock.holder.strategy);
  ++count_[how][state];
  if (state == "idle" || state == "expired" || since(lock.holder).empty()) return;
  auto const taken = seconds(lock.holder.acquired_at);
  auto const first = oldest_.emplace(how, taken).first;
  first->second = std::min(first->second, taken);
}

std::string lock_counts::metrics(database_state const& now) const {
  prometheus_text out;
  gauge(out, "rowlock_locks", "Locks by strategy and state, as rowlock list has it.");
  for (auto const& [how, states] : count_)
    for (auto const& [state, n] : states) out.sample(n, {{"strategy", how}, {"state", state}});
  gauge(out, "rowlock_oldest_lock_timestamp_seconds",
        "When the lock was taken that is held for longest, by the database's clock.");
  for (auto const& [how, taken] : oldest_) out.sample(taken, {{"strategy", how}});
  add_last_reap(out, now.reaped);
  add_grants(out, now.grants);
  add_snapshot(out, now.snapshot);
  return std::move(out).text();
}

std::string metrics_of(reap_run const& run, std::optional<double> last_success) {
  prometheus_text out;
  bool const success = run.exit_status == exit_ok;
  gauge(out, "rowlock_reap_success", "Whether the last run of rowlock reap here went through everything.");
  out.sample(success);
  gauge(out, "rowlock_reap_exit_status",
        "The last run's exit status: 0, 69 unreachable, 75 another run, ...");
  out.sample(run.exit_status);
  gauge(out, "rowlock_reap_last_run_timestamp_seconds", "When the last run ended.");
  out.sample(seconds(run.ended_at));
  if (success) last_success = seconds(run.ended_at);
  if (last_success) {
    gauge(out, std::string(last_success_name), "When the last run ended that went through everything.");
    out.sample(*last_success);
  }
  gauge(out, "rowlock_reap_duration_seconds", "How long the last run took, waiting for another included.");
  out.sample(run.duration.count());
  add_report(out, "rowlock_reap", json::parse(to_json(run.done)));
  return std::move(out).text();
}

std::optional<double> last_success_in(std::string const& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return std::nullopt;  // reading a pipe would wait
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(std::string(last_success_name) + ' ')) continue;
    double value = 0;
    auto const* end = line.data() + line.size();
    auto const read = std::from_chars(line.data() + last_success_name.size() + 1, end, value);
    if (read.ec == std::errc() && read.ptr == end) return value;
  }
  return std::nullopt;
}

void replace_file(std::string const& path, std::string const& text) {
  auto const cannot = [&](std::string const& why) {
    return failure(exit_setup, fmt::format("cannot write the metrics to {}: {}", path, why));
  };
  // What is renamed to /dev/null would be a file there for everybody.
  std::error_code unknown;
  if (auto const there = std::filesystem::status(path, unknown);
      std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    throw cannot("it is there and no plain file. Name a file; - is stdout.");
  temporary_file fresh(path);
  if (!fresh.write(text) || !fresh.move_to(path))
    throw cannot(
        fmt::format("{}. The folder must be there, and this user be allowed to make files in it, because "
                    "the file is made anew each time; in a systemd unit it belongs into ReadWritePaths=.",
                    std::strerror(errno)));
}

}  // namespace rowlock::tool

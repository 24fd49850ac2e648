// The commands of README.md, as they stand there, on an SQLite file instead of the server that they name.

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/source_path.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

/// The blocks of README.md that begin with ```sh.
std::vector<std::string> shell_blocks() {
  std::ostringstream text;
  text << std::ifstream(source_path("README.md")).rdbuf();
  std::string const readme = text.str();
  std::string const fence = "\n```sh\n";
  std::vector<std::string> blocks;
  for (auto at = readme.find(fence); at != readme.npos; at = readme.find(fence, at)) {
    at += fence.size();
    blocks.push_back(readme.substr(at, readme.find("```\n", at) - at));
  }
  return blocks;
}

/// The block with these words.
std::string block_with(std::string const& words) {
  for (auto const& block : shell_blocks())
    if (block.find(words) != block.npos) return block;
  FAIL("README.md has no block of commands with " << words);
  return {};
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE_MESSAGE(at != text.npos, from);
  return text.replace(at, from.size(), to);
}

struct ending {
  std::string output;
  int status = 0;
};

/// Runs lines in a folder of their own, `rowlock` on the path; ends at the first that fails.
ending run_lines(scratch_folder const& folder, std::string const& lines) {
  auto const script = folder.file("script");
  std::ofstream(script) << "set -e\nunset ROWLOCK_DB\ncd '" << folder.path().string() << "'\n"
                        << "export XDG_STATE_HOME=$PWD/state PATH=$(dirname '" ROWLOCK_PROGRAM "'):$PATH\n"
                        << lines;
  FILE* pipe = ::popen(("bash '" + script + "' 2>&1").c_str(), "re");
  REQUIRE(pipe != nullptr);
  ending e;
  std::array<char, 1024> buffer{};
  while (auto const got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    e.output.append(buffer.data(), got);
  e.status = ::pclose(pipe);
  return e;
}

TEST_CASE("the README's commands <sqlite> run one after the other") {
  scratch_folder const folder;
  std::ofstream(folder.file("backup.sh")) << "#!/bin/sh\necho \"backup under $ROWLOCK_NAME\"\n";
  auto lines = "chmod +x backup.sh\n" + block_with("rowlock migrate up");
  lines = replaced(lines, "postgresql://db.example.org/app", "sqlite:locks.db");
  auto const e = run_lines(folder, lines);
  CHECK_MESSAGE(e.status == 0, e.output);
  auto const first = e.output.find("backup under nightly\n");
  REQUIRE_MESSAGE(first != e.output.npos, e.output);
  CHECK_MESSAGE(e.output.find("backup under nightly\n", first + 1) != e.output.npos, e.output);
}

TEST_CASE("the README's first lock <sqlite> needs no database") {
  scratch_folder const folder;
  auto lines = block_with("tools/quickstart");
  lines = replaced(lines, "tools/quickstart", "test -x '" + source_path("tools/quickstart") + "'");
  lines = replaced(lines, "\nbuild/rowlock", "\nrowlock");
  lines = replaced(lines, "sleep 20", "echo alone");
  auto const e = run_lines(folder, lines);
  CHECK_MESSAGE(e.status == 0, e.output);
  CHECK_MESSAGE(e.output.find("alone\n") != e.output.npos, e.output);
}

TEST_CASE("the README's scripts are there") {
  for (std::string const script :
       {"tools/test", ".ci/run", "tools/quickstart", "tools/demo-pause", "tools/demo-failover"})
    CHECK_MESSAGE(std::filesystem::exists(source_path(script)), script);
  CHECK(block_with("tools/test --list").find("bash .ci/run") != std::string::npos);
}

}  // namespace
}  // namespace rowlock::test

#include "support/database_server.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

#include "support/moved_clock.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {

namespace {

std::string quoted(std::string const& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out + "'";
}

char const* name(server_kind kind) {
  switch (kind) {
    case server_kind::postgresql:
      return "postgresql";
    case server_kind::mariadb:
      return "mariadb";
    case server_kind::mysql:
      return "mysql";
  }
  return "";
}

}  // namespace

database_server::database_server(server_kind kind, options wanted) : kind_(kind) {
  auto arguments = fmt::format("--max-connections {}", wanted.max_connections);
  if (wanted.durable) arguments += " --durable";
  if (wanted.galera) arguments += " --galera";
  if (wanted.tls) arguments += " --tls";
  for (auto const& line : wanted.settings) arguments += " --set " + quoted(line);
  if (wanted.standby_of != nullptr)
    arguments += " --standby-of " + quoted(wanted.standby_of->folder_.path().string());
  if (wanted.node_of != nullptr) arguments += " --node-of " + quoted(wanted.node_of->folder_.path().string());
  if (wanted.movable_clock) arguments += " --clock " + quoted(moved_clock_library());
  run("start", arguments);
  address_ = run(kind == server_kind::postgresql ? "conninfo" : "url");
  if (address_.ends_with('\n')) address_.pop_back();
}

database_server::~database_server() {
  try {
    stop();
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
  }
}

void database_server::kill() { run("kill"); }
void database_server::restart() { run("restart"); }
void database_server::pause() { run("pause"); }
void database_server::resume() { run("resume"); }
void database_server::stop() { run("stop"); }

void database_server::set_clock(std::chrono::seconds offset) { move_clock(folder_.file("clock"), offset); }

std::string database_server::log() const {
  std::ifstream file{folder_.file("log")};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::string database_server::run(std::string const& verb, std::string const& arguments) const {
  auto const script = source_path(fmt::format("tests/servers/{}", name(kind_)));
  auto const command = fmt::format("{} {} {} {} 2>&1 </dev/null", quoted(script), verb,
                                   quoted(folder_.path().string()), arguments);
  FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string output;
  std::array<char, 4096> buffer{};
  while (auto const got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), got);
  if (int const status = ::pclose(pipe); status != 0) {
    throw std::runtime_error(fmt::format("{} {} failed ({}): {}", script, verb, status, output));
  }
  return output;
}

}  // namespace rowlock::test

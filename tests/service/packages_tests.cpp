// tools/install-packages, which tools/quickstart and tools/test run first, with apt and dpkg in a folder of
// its own.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "cli/program.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

/// A system without packages, and a source that has some, which are empty.
class bare_system {
 public:
  bare_system() {
    for (auto const* folder :
         {"root/var/lib/dpkg/updates", "root/var/lib/dpkg/info", "root/usr/sbin", "state/lists/partial",
          "cache/archives/partial", "etc", "source", "package/DEBIAN"})
      fs::create_directories(file(folder));
    std::ofstream(file("root/var/lib/dpkg/status"));
    std::ofstream(file("apt.conf")) << fmt::format(
        "Dir::State \"{0}/state\"; Dir::State::status \"{0}/root/var/lib/dpkg/status\"; Dir::Cache "
        "\"{0}/cache\";\n"
        "Dir::Etc \"{0}/etc\"; Dir::Log \"{0}\"; Dir::Etc::sourcelist \"{0}/etc/sources.list\";\n"
        "Dir::Etc::sourceparts \"-\"; APT::Architectures {{ \"amd64\"; }}; APT::Sandbox::User \"root\";\n"
        "DPkg::Options {{ \"--root={0}/root\"; \"--force-not-root\"; \"--force-script-chrootless\"; "
        "\"--log=/dev/null\"; }};\n"
        "Dir::Bin::methods \"/usr/lib/apt/methods\"; DPkg::Use-Pty \"0\"; DPkg::Path "
        "\"/usr/sbin:/usr/bin:/sbin:/bin\";\n",
        folder_.path().string());
    trust(source_line("source"));
  }

  std::string file(std::string const& name) const { return folder_.file(name); }
  void trust(std::string const& line) const {
    std::ofstream(file("etc/sources.list"), std::ios::app) << line << '\n';
  }
  std::string source_line(std::string const& folder) const {
    return fmt::format("deb [trusted=yes arch=amd64] file:{} ./", file(folder));
  }
  void add(std::string const& name) const {
    std::ofstream(file("package/DEBIAN/control"))
        << "Package: " << name
        << "\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: nothing\n";
    done({"dpkg-deb", "--build", file("package"), file("source/" + name + ".deb")});
  }
  void close() const {
    done({"sh", "-c", fmt::format("cd '{}' && dpkg-scanpackages . >Packages", file("source"))});
  }
  /// As root, also where the tests run as another user.
  finished install(words more = {"build"}) const {
    words all{"unshare", "-r", source_path("tools/install-packages")};
    all.insert(all.end(), more.begin(), more.end());
    return run(all, {{"APT_CONFIG", file("apt.conf")},
                     {"DPKG_ADMINDIR", file("root/var/lib/dpkg")},
                     {"DPKG_ROOT", file("root")}});
  }
  std::set<std::string> missing() const {
    std::istringstream lines(install({"--missing", "build"}).out);
    std::set<std::string> names;
    for (std::string one; std::getline(lines, one);) names.insert(one);
    return names;
  }

 private:
  static void done(words const& command) {
    auto const r = run(command);
    REQUIRE_MESSAGE(r.status == 0, r.err);
  }

  scratch_folder folder_;
};

}  // namespace

TEST_CASE(
    "C101: install-packages: a list that can't be read is said, and matters only if a package is missing") {
  bare_system const s;
  auto const wanted = s.missing();
  REQUIRE(wanted.contains("libsqlite3-dev"));
  for (auto const& name : wanted)
    if (name != "libsqlite3-dev") s.add(name);
  s.close();
  s.trust(s.source_line("another_vendors"));  // which is not there

  auto const first = s.install();
  CAPTURE(first.err);
  CHECK(first.status == 1);
  CHECK(first.says("another_vendors"));  // apt's own words
  CHECK(first.says("no package list that could be read has libsqlite3-dev"));
  CHECK(s.missing() == std::set<std::string>{"libsqlite3-dev"});

  s.add("libsqlite3-dev");
  s.close();
  auto const second = s.install();
  CAPTURE(second.err);
  CHECK(second.status == 0);
  CHECK(second.says("another_vendors"));
  CHECK(s.missing().empty());
}

}  // namespace rowlock::test

#pragma once

#include <string>
#include <string_view>

namespace rowlock::test {

/// The path of one of the project's files, named from its root; "": the root itself. A function, so that no
/// more than this one file is compiled anew where the project stands in another folder.
std::string source_path(std::string_view file = {});

}  // namespace rowlock::test

#pragma once
// The password in the user's option file, ~/.my.cnf. rowlock reads nothing else there. The client library
// never reads it: its settings for encryption and files would override rowlock's.

#include <iosfwd>
#include <optional>
#include <string>

namespace rowlock::backend::mysql {

/// The last `password` in group [client], as the client `mysql` reads it. A value can stand in quotes. \b \t
/// \n \r \s \\ and an escaped quote mean the same as there. # begins a comment outside of quotes. Nothing
/// without the option or its value (which means: ask for it). Does not follow !include.
std::optional<std::string> password_in(std::istream& option_file);

/// Nothing if the file can't be read, is no regular file, is longer than 1 MiB, or all users may write to it.
/// Never waits for a pipe.
std::optional<std::string> password_of_option_file();

}  // namespace rowlock::backend::mysql

#pragma once
// The user's option file, ~/.my.cnf. rowlock reads only the password from it.

#include <iosfwd>
#include <optional>
#include <string>

namespace rowlock::backend::mysql {

/// The value of `password` in group [client], as the client `mysql` reads it. The last one counts. A value
/// can stand in quotes. \b \t \n \r \s \\ and an escaped quote mean the same as there. # begins a comment
/// outside of quotes. Nothing if the option is missing, or has no value (which means: ask for it). Does not
/// follow !include.
std::optional<std::string> password_in(std::istream& option_file);

/// The password in ~/.my.cnf. Nothing if the file can't be read, is no regular file, is longer than 1 MiB, or
/// all users may write to it. Never waits for a pipe. (The client library never reads that file: its settings
/// for encryption and files would override rowlock's.)
std::optional<std::string> password_of_option_file();

}  // namespace rowlock::backend::mysql

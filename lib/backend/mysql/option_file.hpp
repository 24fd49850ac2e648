#pragma once
// The user's option file, ~/.my.cnf, of which a password is all that is read.

#include <iosfwd>
#include <optional>
#include <string>

namespace rowlock::backend::mysql {

/// What `password` is in group [client], as the client `mysql` reads it: the last one counts; a value may
/// stand in quotes; \b \t \n \r \s \\ and an escaped quote mean what they do there; # begins a comment
/// outside of quotes. Nothing if there is none, also if the option has no value, which means: ask for it.
/// !include is not followed.
std::optional<std::string> password_in(std::istream& option_file);

/// The one in ~/.my.cnf; nothing if that can't be read, is no regular file, is longer than 1 MiB, or anybody
/// may write to it. Waits for no pipe. (The client library is never told to read that file:
/// what it says there about encryption, or files that a server may ask for, would count more than what we
/// have set.)
std::optional<std::string> password_of_option_file();

}  // namespace rowlock::backend::mysql

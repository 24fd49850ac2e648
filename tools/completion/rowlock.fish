# fish completion for rowlock(1). What there is to complete is asked of the program itself, of its --help.

# The words of the line so far that are commands, which the help to ask for begins with.
function __rowlock_commands
    set -l found
    for word in (commandline -opc)[2..-1]
        test "$word" = -- && break
        if rowlock $found --help 2>/dev/null | awk '/^Subcommands:$/ {on = 1; next} /^$/ {on = 0} on && /^  [a-z]/ {print $1}' | grep -qxF -- "$word"
            set -a found $word
        end
    end
    printf '%s\n' $found
end

# "NAME<TAB>what it does" of what may come next.
function __rowlock_next
    rowlock (__rowlock_commands) --help 2>/dev/null | awk -v list=$argv[1] '
        $0 == list ":" {on = 1; next}
        /^$/ {on = 0}
        on && /^  [a-z-]/ {
            name = $1; sub(/^-[a-zA-Z],/, "", name)
            text = $0; sub(/^ +[^ ]+( [A-Z][^ ]*)*( Excludes:.*)? */, "", text)
            sub(/^in \[.*/, "", text)
            print name "\t" text
        }'
end

# How many words of the line stand before the command of `rowlock run`, `lead` or `once`; nothing if it has not begun.
function __rowlock_before_command
    set -l words (commandline -opc)
    if contains -i -- -- $words
        return
    end
    set -l run (contains -i -- run $words)
    or set run (contains -i -- lead $words)
    or set run (contains -i -- once $words)
    or return
    # Without -- it begins right behind NAME.
    if test (count $words) -gt $run; and not string match -q -- '-*' $words[(math $run + 1)]
        math $run + 1
    end
end

function __rowlock_in_command
    test -n "$(__rowlock_before_command)"
end

complete -c rowlock -n 'not __rowlock_in_command' -f -a '(__rowlock_next Subcommands)'
complete -c rowlock -n 'not __rowlock_in_command; and string match -q -- "-*" (commandline -ct)' -f -a '(__rowlock_next Options)'
complete -c rowlock -l password-file -r -F
complete -c rowlock -n 'contains reap (__rowlock_commands)' -l metrics -r -F
complete -c rowlock -n '__rowlock_in_command' -x -a '(__fish_complete_subcommand --fcs-skip=(__rowlock_before_command))'
